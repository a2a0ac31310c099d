(task :subtype "standard" :description "Readability" :instructions "Analyze the code."
  :system "You are an expert." :model "local:auto" :criteria "validate, log")
