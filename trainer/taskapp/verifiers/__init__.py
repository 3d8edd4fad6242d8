"""Task apps from the package `verifiers` 0.4: any installed environment, of one turn or many, with tools or without.

app.py answers the contract, environment.py holds a loaded environment, chat.py is the loop that plays an agent,
answer.py turns a finished episode into a rollout answer.
"""
