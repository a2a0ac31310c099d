(script :argv ("echo" "{{word}}") :inputs ((word "hello")))
