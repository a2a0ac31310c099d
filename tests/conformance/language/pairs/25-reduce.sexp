(reduce-task :initial "nothing" :inputs ((a "one") (b "two"))
  :inner (task :description "Look at {{input}}")
  :reduction (task :description "Join {{accumulator}} and {{current_result}} from {{original_input}}"))
