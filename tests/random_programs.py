"""Texts of random programs: forms that fail, are late, use up budgets and wait for one another."""

from random import Random

HEAD = """(deftask ask (x) :instructions "{{x}}")
(define (message e) (get-in e (list "notes" "error" "message")))
(template one (a) (ask a))
(template two (a b) (list a (ask a) (ask b)))
(template thrower (a) (begin (ask (format "{} q" a)) (ask (format "{} fails" a))))
(define s 0)
"""
MOODS = ("q", "q", "q", "q", "fails", "hang", "slow", "moody")
"""How the model takes a prompt, which says so: `moody` fails in every second life."""


class ProgramWriter:
    """Writes programs; every call in one has a name of its own."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._names = 0

    def program(self) -> str:
        """Return a program that prompts with the outcome of each part, and returns these prompts too."""
        parts = range(self._chance.randrange(1, 4))
        depth = self._chance.choice((2, 3, 3, 4))
        return HEAD + "\n".join(
            [
                *(self._part(number, depth) for number in parts),
                f'(list (ask "end q") {" ".join(f"told{number}" for number in parts)})',
            ]
        )

    def _part(self, number: int, depth: int) -> str:
        tried = f'(try {self._form(depth)} (catch e (list "caught" (message e))))'
        told = f'(define told{number} (format "then{number} q {{}} {{}}" s v{number}))'
        return f"(define v{number} {tried})\n{told}\n(ask told{number})"

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def _prompt(self) -> str:
        return f'"{self._name()} {self._chance.choice(MOODS)}"'

    def _leaf(self) -> str:
        leaves = [
            *[f"(ask {self._prompt()})"] * 6,
            f"(one {self._prompt()})",
            f'(script :argv ("{self._name()}" "bad"))',
            f'(script :argv ("{self._name()}" "good"))',
            '(error "pure")',
            str(self._chance.randrange(9)),
        ]
        return self._chance.choice(leaves)

    def _forms(self, depth: int, most: int, *, is_branch: bool = False) -> str:
        return " ".join(
            self._form(depth, is_branch=is_branch) for _ in range(self._chance.randrange(1, most + 1))
        )

    def _form(self, depth: int, *, is_branch: bool = False) -> str:
        if depth <= 0:
            return self._leaf()
        write = self._chance.choice((self._concurrent, self._limited, self._plain, self._plain))
        return write(depth - 1, is_branch)

    def _concurrent(self, depth: int, is_branch: bool) -> str:
        several = self._forms(depth, 4, is_branch=True)
        return self._chance.choice(
            (
                f'(parallel {several} (ask "{self._name()} q"))',
                f"(sequential :parallel true {several})",
                f'(map (lambda (n) (list n {several} (ask (format "{self._name()} q {{}}" n)))) (range 3))',
            )
        )

    def _limited(self, depth: int, is_branch: bool) -> str:
        body, instead = (self._form(depth, is_branch=is_branch) for _ in range(2))
        seconds = self._chance.choice(("0.01", "0.03", "0.06"))
        limited = self._chance.choice(
            (
                f"(with-timeout {seconds} {body})",
                f"(sequential :timeout {seconds} {body} {instead})",
                f"(with-budget (:calls {self._chance.randrange(6)}) {body})",
                f"(with-budget (:tokens {self._chance.choice((5, 15, 25))}) {body})",
            )
        )
        is_caught = self._chance.random() < 0.8
        return f"(try {limited} (catch e (list (message e) {instead})))" if is_caught else limited

    def _plain(self, depth: int, is_branch: bool) -> str:
        body, second = (self._form(depth, is_branch=is_branch) for _ in range(2))
        setting = f"(begin (set! s (+ s 1)) {body} (set! s (+ s 1)) {second})"
        forms = [
            f"(try {body} (catch e (list (message e) {second})))",
            f'(try (thrower "{self._name()}") (catch e (ask (format "{self._name()} {{}}" (message e)))))',
            f"(loop {self._chance.randrange(1, 4)} (begin {body}))",
            f"(sequential {body} {second})",
            f"(two {self._prompt()} {self._prompt()})",
            f"(list {body} {second})",
        ]
        # Of concurrent branches none sets what others read: the order would be a matter of time.
        return self._chance.choice(forms if is_branch else [*forms, setting])
