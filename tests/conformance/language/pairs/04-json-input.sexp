(task :instructions "Count to {{n}}" :inputs ((n 3)))
