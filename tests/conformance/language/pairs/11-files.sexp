(task :description "Read" :files ("a.py" "b.py"))
