"""The 200 short facts of the `facts` app, by category: `question = answer | other accepted answer`.

Every category has a multiple of five. No accepted answer occurs in its own question, so that repeating the
question is never right.
"""

CAPITALS = """
What is the capital of France? = Paris
What is the capital of Germany? = Berlin
What is the capital of Italy? = Rome
What is the capital of Spain? = Madrid
What is the capital of Greece? = Athens
What is the capital of England? = London
What is the capital of Japan? = Tokyo
What is the capital of China? = Beijing | Peking
What is the capital of Russia? = Moscow
What is the capital of Egypt? = Cairo
What is the capital of Portugal? = Lisbon
What is the capital of Austria? = Vienna
What is the capital of Ireland? = Dublin
What is the capital of Norway? = Oslo
What is the capital of Sweden? = Stockholm
What is the capital of Denmark? = Copenhagen
What is the capital of Finland? = Helsinki
What is the capital of Poland? = Warsaw
What is the capital of Hungary? = Budapest
What is the capital of Belgium? = Brussels
What is the capital of Canada? = Ottawa
What is the capital of Australia? = Canberra
What is the capital of Brazil? = Brasilia
What is the capital of Argentina? = Buenos Aires
What is the capital of Peru? = Lima
What is the capital of Cuba? = Havana
What is the capital of Kenya? = Nairobi
What is the capital of India? = New Delhi | Delhi
What is the capital of Thailand? = Bangkok
What is the capital of South Korea? = Seoul
What is the capital of Turkey? = Ankara
What is the capital of Scotland? = Edinburgh
What is the capital of Ukraine? = Kyiv | Kiev
What is the capital of Iraq? = Baghdad
What is the capital of the United States? = Washington DC | Washington D.C. | Washington
"""

OPPOSITES = """
What is the opposite of hot? = cold
What is the opposite of big? = small | little | tiny
What is the opposite of up? = down
What is the opposite of black? = white
What is the opposite of day? = night
What is the opposite of happy? = sad | unhappy
What is the opposite of fast? = slow
What is the opposite of open? = closed | close | shut
What is the opposite of left? = right
What is the opposite of old? = young | new
What is the opposite of rich? = poor
What is the opposite of wet? = dry
What is the opposite of true? = false
What is the opposite of love? = hate | hatred
What is the opposite of war? = peace
What is the opposite of north? = south
What is the opposite of east? = west
What is the opposite of heavy? = light
What is the opposite of hard? = soft | easy
What is the opposite of early? = late
What is the opposite of win? = lose | loss
What is the opposite of full? = empty
What is the opposite of strong? = weak
What is the opposite of long? = short
What is the opposite of life? = death
"""

ANIMALS = """
What is a baby dog called? = puppy | pup
What is a baby cat called? = kitten
What is a baby cow called? = calf
What is a baby sheep called? = lamb
What is a baby horse called? = foal
What is a baby frog called? = tadpole
What is a baby bear called? = cub
What is a baby duck called? = duckling
Which animal says moo? = cow | a cow | cattle
Which animal barks? = dog | dogs
Which animal says meow? = cat | cats
Which animal gives us wool? = sheep
Which animal is the king of the jungle? = lion
Which animal has a very long neck? = giraffe
Which animal has a trunk and large ears? = elephant
Which insect makes honey? = bee | bees | honeybee | honeybees | honey bee
Which animal hops and has a pouch? = kangaroo
Which animal has black and white stripes? = zebra
What is the largest animal in the world? = blue whale | whale
What is the fastest land animal? = cheetah
What is the tallest animal in the world? = giraffe
Which bird lives at the South Pole and cannot fly? = penguin | penguins
Which animal builds dams in rivers? = beaver | beavers
What does a caterpillar turn into? = butterfly | moth
What do pandas eat? = bamboo
"""

SCIENCE = """
Which planet is closest to the Sun? = Mercury
Which planet is called the Red Planet? = Mars
What is the largest planet in our solar system? = Jupiter
Which planet do we live on? = Earth
Which planet is famous for its rings? = Saturn
What does the Earth go around? = Sun
What is frozen water called? = ice
What is the chemical symbol of oxygen? = O
What is the chemical symbol of gold? = Au
What is the chemical formula of water? = H2O
Which gas do humans need to breathe? = oxygen
Which gas do plants take in from the air? = carbon dioxide | CO2
Which force pulls objects to the ground? = gravity | gravitational force
Which organ pumps blood through the body? = heart
Which organ do we think with? = brain
Which organs do we breathe with? = lungs | lung
Which sense do we use our eyes for? = sight | vision | seeing
What do we call water that falls from clouds? = rain | rainfall
What do bees collect from flowers? = nectar | pollen
What is the hardest natural material? = diamond | diamonds
Which metal is attracted by a magnet? = iron | steel | nickel
What is the center of an atom called? = nucleus
Who discovered gravity when an apple fell? = Newton | Isaac Newton
Who developed the theory of relativity? = Einstein | Albert Einstein
What is the star at the center of our solar system? = Sun
Which liquid do cows give us? = milk
What is the largest organ of the human body? = skin
Which gas is lighter than air and fills balloons? = helium | hydrogen
What do we call the study of living things? = biology
What do we call a scientist who studies stars? = astronomer
"""

COLOURS = """
What color is grass? = green
What color is snow? = white
What color is a ripe banana? = yellow
What color is the sky on a clear day? = blue
What color is coal? = black
What color is a ripe tomato? = red
What color is blood? = red
What color is a carrot? = orange
What color is milk? = white
What color is chocolate? = brown
What color is an emerald? = green
What color is a ruby? = red
What color is a pumpkin? = orange
What color do you get from mixing blue and yellow? = green
What color do you get from mixing red and white? = pink
"""

NUMBERS = """
How many days are in a week? = 7 | seven
How many months are in a year? = 12 | twelve
How many hours are in a day? = 24 | twenty-four | twenty four
How many minutes are in an hour? = 60 | sixty
How many seconds are in a minute? = 60 | sixty
How many legs does a spider have? = 8 | eight
How many legs does a dog have? = 4 | four
How many legs does an insect have? = 6 | six
How many sides does a triangle have? = 3 | three
How many sides does a square have? = 4 | four
How many fingers are on one hand? = 5 | five
How many wheels does a bicycle have? = 2 | two
How many letters are in the English alphabet? = 26 | twenty-six | twenty six
How many years are in a century? = 100 | hundred | one hundred
How many continents are there? = 7 | seven
How many colors are in a rainbow? = 7 | seven
How many cents are in a dollar? = 100 | hundred | one hundred
How many weeks are in a year? = 52 | fifty-two | fifty two
What is 2 plus 2? = 4 | four
What is 5 plus 5? = 10 | ten
What is 3 times 3? = 9 | nine
What is 10 minus 3? = 7 | seven
What is 6 plus 2? = 8 | eight
What is 10 times 10? = 100 | hundred | one hundred
What is half of 10? = 5 | five
"""

CALENDAR = """
Which day comes after Monday? = Tuesday
Which day comes after Friday? = Saturday
Which day comes before Thursday? = Wednesday
Which day comes before Monday? = Sunday
Which month comes after March? = April
Which month comes after June? = July
Which month comes before December? = November
Which month comes before March? = February
What is the first month of the year? = January
What is the last month of the year? = December
Which month has the fewest days? = February
In which month is Christmas? = December
In which month is Halloween? = October
Which season comes after winter? = spring
Which season is the hottest? = summer
"""

LANGUAGES = """
Which language is spoken in France? = French
Which language is spoken in Germany? = German
Which language is spoken in Italy? = Italian
Which language is spoken in Mexico? = Spanish
Which language is spoken in Japan? = Japanese
Which language is spoken in Brazil? = Portuguese
Which language is spoken in Egypt? = Arabic
Which language is spoken in England? = English
Which language is spoken in Russia? = Russian
Which language did the ancient Romans speak? = Latin
"""

WORLD = """
What is the largest ocean? = Pacific | Pacific Ocean
What is the highest mountain in the world? = Mount Everest | Everest
What is the longest river in Africa? = Nile | Nile River
Which country is shaped like a boot? = Italy
On which continent is Egypt? = Africa
On which continent is France? = Europe
On which continent is China? = Asia
On which continent is Brazil? = South America
In which country are the pyramids of Giza? = Egypt
In which city is the Eiffel Tower? = Paris
In which city is the Statue of Liberty? = New York | New York City
In which country is the Great Wall? = China
Who wrote Romeo and Juliet? = Shakespeare | William Shakespeare
Who painted the Mona Lisa? = Leonardo da Vinci | Leonardo | da Vinci
Who was the first president of the United States? = George Washington | Washington
What is the currency of Japan? = yen
What is the currency of the United States? = dollar | dollars | US dollar
Which meal do people eat in the morning? = breakfast
What do we use to tell the time? = clock | watch | a clock | a watch
What is the main ingredient of bread? = flour | wheat
"""

CATEGORIES = (
    CAPITALS,
    OPPOSITES,
    ANIMALS,
    SCIENCE,
    COLOURS,
    NUMBERS,
    CALENDAR,
    LANGUAGES,
    WORLD,
)
