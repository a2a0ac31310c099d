; A director writes a function, a script tests it, and an evaluator says what to change; until the test passes or
; four rounds are over. Whether it passes is for the script to say, and not for a model.
;
;   weft run examples/until_tests_pass.sexp

(define wanted "seconds(text) turns a duration such as \"1h30m\" or \"45s\" into a number of seconds.")

(define test "
assert seconds('45s') == 45
assert seconds('2m') == 120
assert seconds('1h30m') == 5400
assert seconds('') == 0
print('the test passes')
")

(deftask advise ((code string) (errors string))
  :subtype "evaluator"
  :system "A Python function fails its test. Say in one sentence what to change in it."
  :instructions "{{code}}

{{errors}}"
  :schema "schemas/advice.json")

(director-evaluator-loop
  :max-iterations 4
  :description "Write a function until its test passes"
  :director
    (task
      :description "Write the function"
      :system "You write one Python function. First say in \"plan\" in a few words how it works and which special cases there are. Then write the whole function in \"code\", with its imports inside, and nothing else.

Example:
clamp(x, low, high) returns x limited to the range low to high.
{\"plan\": \"Take the larger of x and low, then the smaller of that and high.\", \"code\": \"def clamp(x, low, high):\\n    return min(max(x, low), high)\\n\"}"
      :instructions "{{wanted}}
{{evaluation_feedback}}"
      :schema "schemas/function.json")
  :script
    (script :description "Test it" :argv ("python3" "-c" "{{director_result.code}}{{test}}") :timeout 10)
  :evaluator
    (if (= script_exit_code 0)
        (dict :success true :feedback "")
        (dict :success false
              :feedback (string-append "Your last code was:\n" director_result.code
                                       "\nWhat to change: " (get (advise director_result.code script_errors) "advice")))))
