(sequential
  (task :description "Write code" :output-slot program)
  (script :input-source program :argv ("python" "-")))
