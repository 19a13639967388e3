from firmwright.tasks.dodo import *
