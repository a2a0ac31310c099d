"""Which tree-sitter grammar reads a language, and what it calls the definitions that an outline names."""

from msgspec import Struct


class Grammar(Struct, frozen=True):
    """A grammar as its wheel has it."""

    module: str
    function: str
    """What gives the language in that module."""
    query: str
    """Captures the name of every definition, as what it is: `@class`, `@function` ..."""


_JAVASCRIPT = """
(class_declaration name: (_) @class)
(function_declaration name: (identifier) @function)
(generator_function_declaration name: (identifier) @function)
(method_definition name: (_) @method)
(variable_declarator name: (identifier) @function value: [(arrow_function) (function_expression)])
(variable_declarator name: (identifier) @class value: (class))
(assignment_expression left: (member_expression property: (property_identifier) @function)
  right: [(arrow_function) (function_expression)])
(pair key: (property_identifier) @method value: [(arrow_function) (function_expression)])
(export_statement declaration: (lexical_declaration "const"
  (variable_declarator name: (identifier) @constant
    value: [(object) (array) (string) (number) (new_expression)])))
"""

_TYPESCRIPT = (
    _JAVASCRIPT
    + """
(abstract_class_declaration name: (_) @class)
(interface_declaration name: (_) @type)
(type_alias_declaration name: (_) @type)
(enum_declaration name: (_) @type)
(internal_module name: (_) @type)
(module name: (_) @type)
(function_signature name: (_) @function)
(method_signature name: (_) @method)
(abstract_method_signature name: (_) @method)
"""
)

_GO = """
(function_declaration name: (_) @function)
(method_declaration name: (_) @method)
(method_elem name: (_) @method)
(type_spec name: (_) @type)
(type_alias name: (_) @type)
(source_file (const_declaration (const_spec name: (identifier) @constant)))
(source_file (var_declaration (var_spec name: (identifier) @constant)))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @constant))))
"""

_RUST = """
(source_file (function_item name: (_) @function))
(mod_item body: (declaration_list (function_item name: (_) @function)))
(block (function_item name: (_) @function))
(foreign_mod_item body: (declaration_list (function_signature_item name: (_) @function)))
(impl_item body: (declaration_list [(function_item name: (_) @method) (const_item name: (_) @constant)]))
(trait_item body: (declaration_list
  [(function_item name: (_) @method) (function_signature_item name: (_) @method)]))
(struct_item name: (_) @type)
(enum_item name: (_) @type)
(union_item name: (_) @type)
(trait_item name: (_) @type)
(type_item name: (_) @type)
(mod_item name: (_) @type)
(macro_definition name: (_) @macro)
(source_file [(const_item name: (_) @constant) (static_item name: (_) @constant)])
"""

_JAVA = """
(class_declaration name: (_) @class)
(interface_declaration name: (_) @class)
(enum_declaration name: (_) @class)
(record_declaration name: (_) @class)
(annotation_type_declaration name: (_) @class)
(method_declaration name: (_) @method)
(constructor_declaration name: (_) @method)
(field_declaration (modifiers "static" "final") declarator: (variable_declarator name: (_) @constant))
(enum_constant name: (_) @constant)
"""

_C = """
(function_declarator declarator: (identifier) @function)
(struct_specifier name: (type_identifier) @type body: (_))
(union_specifier name: (type_identifier) @type body: (_))
(enum_specifier name: (type_identifier) @type body: (_))
(type_definition declarator: (type_identifier) @type)
(preproc_def name: (_) @constant)
(preproc_function_def name: (_) @macro)
"""

_CPP = (
    _C
    + """
(function_declarator declarator:
  [(qualified_identifier) (field_identifier) (destructor_name) (operator_name)] @method)
(class_specifier name: (_) @class body: (_))
(namespace_definition name: (_) @type)
(alias_declaration name: (_) @type)
(concept_definition name: (_) @type)
"""
)

_RUBY = """
(class name: (_) @class)
(module name: (_) @class)
(method name: (_) @method)
(singleton_method name: (_) @method)
(alias name: (_) @method)
(assignment left: (constant) @constant)
"""

_C_SHARP = """
(class_declaration name: (_) @class)
(interface_declaration name: (_) @class)
(struct_declaration name: (_) @class)
(enum_declaration name: (_) @class)
(record_declaration name: (_) @class)
(delegate_declaration name: (_) @type)
(method_declaration name: (_) @method)
(constructor_declaration name: (_) @method)
(property_declaration name: (_) @method)
(local_function_statement name: (_) @function)
"""

_PHP = """
(class_declaration name: (_) @class)
(interface_declaration name: (_) @class)
(trait_declaration name: (_) @class)
(enum_declaration name: (_) @class)
(function_definition name: (_) @function)
(method_declaration name: (_) @method)
(const_element (name) @constant)
"""

_SHELL = "(function_definition name: (_) @function)"

_C_GRAMMAR = Grammar("tree_sitter_c", "language", _C)
_CPP_GRAMMAR = Grammar("tree_sitter_cpp", "language", _CPP)

BY_LANGUAGE: dict[str, tuple[Grammar, ...]] = {
    "javascript": (Grammar("tree_sitter_javascript", "language", _JAVASCRIPT),),
    "typescript": (
        Grammar("tree_sitter_typescript", "language_typescript", _TYPESCRIPT),
        Grammar("tree_sitter_typescript", "language_tsx", _TYPESCRIPT),
    ),
    "go": (Grammar("tree_sitter_go", "language", _GO),),
    "rust": (Grammar("tree_sitter_rust", "language", _RUST),),
    "java": (Grammar("tree_sitter_java", "language", _JAVA),),
    "c": (_C_GRAMMAR, _CPP_GRAMMAR),
    "cpp": (_CPP_GRAMMAR,),
    "ruby": (Grammar("tree_sitter_ruby", "language", _RUBY),),
    "csharp": (Grammar("tree_sitter_c_sharp", "language", _C_SHARP),),
    "php": (Grammar("tree_sitter_php", "language_php", _PHP),),
    "shell": (Grammar("tree_sitter_bash", "language", _SHELL),),
}
"""The first grammar that reads a file without an error gives its outline, else the first: a header may be C
or C++, and `<T>x` in TypeScript is a cast or an element of a page."""
