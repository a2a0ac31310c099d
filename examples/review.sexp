; Review what changed, file by file, and sum it up.
(deftask review-file ((path string))
  :instructions "Review {{path}}: what is wrong with it, and on which line?"
  :files ("{{path}}")
  :output "json" :schema "object[]" :returns "object[]")

(deftask summarize (findings)
  :instructions "Sum up these findings for the author: {{findings}}"
  :returns "string")

(define changed
  (filter (lambda (line) (ends-with? line ".py"))
          (string-split (content (script :argv ("git" "diff" "--name-only" "HEAD~1"))) "\n")))

(summarize (map review-file changed))
