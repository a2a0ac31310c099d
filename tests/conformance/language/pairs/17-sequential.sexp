(sequential :description "Two steps"
  (task :description "First" :output-slot first_out)
  (task :description "Second after {{first_out}}"))
