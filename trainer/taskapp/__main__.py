"""`python -m trainer.taskapp serve ...`."""

from trainer.taskapp.serve import run

if __name__ == "__main__":
    run()
