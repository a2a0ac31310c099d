(sequential :parallel true
  (task :description "Process {{data}}" :inputs ((data "data1")))
  (task :description "Process {{data}}" :inputs ((data "data2"))))
