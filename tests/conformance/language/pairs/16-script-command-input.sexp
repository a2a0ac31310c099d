(script :description "Run it" :inputs ((command "echo hello")))
