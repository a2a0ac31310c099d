(task :instructions "Analyze {{code}}" :inputs ((code "The code to analyze")))
