(task :instructions "Join {{a}} and {{b}}"
  :inputs ((a (task :description "First")) (b (task :description "Second"))))
