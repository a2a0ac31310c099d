(script :shell "echo \"$word\" | wc -c" :inputs ((word "hello") (stdin "in")) :timeout 5)
