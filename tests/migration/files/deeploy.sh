python deeployRunner_siracusa.py -t Tests/Models/KWS --cores=8 --l1=64000 -v
