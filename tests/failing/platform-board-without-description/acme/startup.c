/* start-up code */
