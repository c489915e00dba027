-- SPDX-License-Identifier: MIT
--- `ridge completion`: what a shell needs to complete commands, options and their values.

local described = require 'ridge.cli.described'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'completion for a shell: ridge completion bash > ridge.bash'
M.usage = 'ridge completion bash|zsh|fish'

local SPEC = {
  about = [[
Prints a script that completes commands, options, their values, recipes and files.

    ridge completion bash > ridge.bash    # ~/.local/share/bash-completion/completions/ridge
    ridge completion zsh > _ridge         # a folder of $fpath
    ridge completion fish > ridge.fish    # ~/.config/fish/completions]],
  rest = 'bash|zsh|fish', most = 1,
}

-- Names that are there when the key is pressed, by what prints them.
local NAMES = {
  recipes = 'ridge list 2>/dev/null | cut -d" " -f1',
  sweeps = 'ridge sweeps --as csv 2>/dev/null | sed -n "2,\\$ s/,.*//p"',
  pages = 'ridge docs 2>/dev/null | grep "^[a-z][^ ]*  " | cut -d" " -f1',
}

-- What the first word of a command may be: a key of NAMES, or else the words themselves, as those
-- of 'info|check|backup [FILE]'; nil, nil: files only.
local function first_of(command)
  if command.name == 'run' then return 'recipes' end
  if command.name == 'docs' then return 'pages' end
  local rest = command.rest or ''
  local words = rest:match '^%l[%l%d]*|[%l%d|]+%f[^%l%d]'
  return rest:find '^SWEEP' and 'sweeps' or nil, words and words:gsub('|', ' ') or nil
end

-- -- bash ---------------------------------------------------------------------------------------

local BASH = [==[
# completion of ridge for bash, from its tables of options

_ridge() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= i words= files=-f
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      @TAKING@) ((i++)) ;;
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $command,$before in
@VALUES@
  esac
  case $command in
    '') words='@COMMANDS@ @FLAGS@' ;;
@OPTIONS@
  esac
  if [[ $word == -* ]]; then files=; fi
  COMPREPLY=($(compgen $files -W "$words" -- "$word"))
}
complete -o filenames -F _ridge ridge
]==]

local function bash(list)
  local names, flags, taking, options, values = {}, {}, { '-e' }, {}, {}
  for _, flag in ipairs(described.flags()) do
    flags[#flags + 1] = flag.flag
    if flag.takes then taking[#taking + 1] = flag.flag end
  end
  for i, command in ipairs(list) do
    names[i] = command.name
    local words = {}
    for _, option in ipairs(command.options) do
      words[#words + 1] = option.flag
      words[#words + 1] = option.short
      local form = option.choices and
        ("    %s,%s%s) COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;"):format(
        command.name, option.flag, option.short and ('|%s,%s'):format(command.name, option.short)
        or '', table.concat(option.choices, ' '))
      values[#values + 1] = form
    end
    local free, actions = first_of(command)
    options[i] = ("    %s) words='%s'%s ;;"):format(command.name, table.concat(words, ' '),
      free and ('; [[ $word == -* ]] || words=$(%s)'):format(NAMES[free])
      or actions and ("; [[ $word == -* || $before != %s ]] || { words='%s'; files=; }"):format(
        command.name, actions) or '')
  end
  local parts = { TAKING = table.concat(taking, '|'), VALUES = table.concat(values, '\n'),
    COMMANDS = table.concat(names, ' '), FLAGS = table.concat(flags, ' '),
    OPTIONS = table.concat(options, '\n') }
  return (BASH:gsub('@(%u+)@', parts))
end

-- -- zsh ----------------------------------------------------------------------------------------

local ZSH = [[
#compdef ridge
# completion of ridge for zsh, from its tables of options

_ridge_recipes() { compadd -- ${(f)"$(@RECIPES@)"}; _files }
_ridge_sweeps() { compadd -- ${(f)"$(@SWEEPS@)"}; _files }
_ridge_pages() { compadd -- ${(f)"$(@PAGES@)"} }

_ridge() {
  local -a commands
  local context state line
  commands=(
@COMMANDS@
  )
  _arguments -C \
@FLAGS@
    '1: :->command' '*:: :->arguments'
  case $state in
    command) _describe -t commands command commands; _files ;;
    arguments)
      case $words[1] in
@OPTIONS@
        *) _files ;;
      esac ;;
  esac
}

_ridge "$@"
]]

local function quoted(text) return (text:gsub("'", "'\\''")) end
local function zsh_text(text) return quoted((text:gsub('[%[%]:\\]', '\\%0'))) end

local function zsh_option(option)
  local value = ''
  if option.takes then
    value = option.choices and (':value:(%s)'):format(quoted(table.concat(option.choices, ' ')))
      or option.writes == 'folder' and ':folder:_files -/' or option.writes and ':file:_files'
      or ':value: '
  end
  local text = ('[%s]%s'):format(zsh_text(option.does), value)
  if not option.short then return ("'%s%s'"):format(option.flag, text) end
  return ("'(%s %s)'{%s,%s}'%s'"):format(option.flag, option.short, option.flag, option.short,
    text)
end

local function zsh(list)
  local names, flags, options = {}, {}, {}
  for i, flag in ipairs(described.flags()) do flags[i] = '    ' .. zsh_option(flag) .. ' \\' end
  for i, command in ipairs(list) do
    names[i] = ("    '%s:%s'"):format(command.name, zsh_text(command.summary))
    local words = {}
    for k, option in ipairs(command.options) do words[k] = zsh_option(option) end
    local free, actions = first_of(command)
    free = (free and ("'1: :_ridge_%s' "):format(free)
      or actions and ("'1:action:(%s)' "):format(actions) or '') .. "'*:file:_files'"
    options[i] = ('        %s) _arguments %s %s ;;'):format(command.name, table.concat(words,
      ' \\\n          '), free)
  end
  return (ZSH:gsub('@(%u+)@', { RECIPES = NAMES.recipes, SWEEPS = NAMES.sweeps,
    PAGES = NAMES.pages,
    COMMANDS = table.concat(names, '\n'), FLAGS = table.concat(flags, '\n'),
    OPTIONS = table.concat(options, '\n') }))
end

-- -- fish ---------------------------------------------------------------------------------------

local function fish_text(text) return (text:gsub('[\\\']', '\\%0')) end

local function fish_option(condition, option)
  local parts = { 'complete -c ridge', condition and ("-n '%s'"):format(condition) or nil }
  local name = option.flag:match '^%-%-(.+)' -- a flag of one letter has one dash
  parts[#parts + 1] = name and '-l ' .. name or '-s ' .. option.flag:sub(2)
  if option.short then parts[#parts + 1] = '-s ' .. option.short:sub(2) end
  if option.choices then
    parts[#parts + 1] = ("-x -a '%s'"):format(fish_text(table.concat(option.choices, ' ')))
  elseif option.takes then
    parts[#parts + 1] = '-r'
  end
  if option.does ~= '' then parts[#parts + 1] = ("-d '%s'"):format(fish_text(option.does)) end
  return table.concat(parts, ' ')
end

local function fish(list)
  local lines = { '# completion of ridge for fish, from its tables of options' }
  for _, flag in ipairs(described.flags()) do
    lines[#lines + 1] = fish_option('__fish_use_subcommand', flag)
  end
  for _, command in ipairs(list) do
    lines[#lines + 1] = ("complete -c ridge -n '__fish_use_subcommand' -a %s -d '%s'"):format(
      command.name, fish_text(command.summary))
    local condition = '__fish_seen_subcommand_from ' .. command.name
    for _, option in ipairs(command.options) do
      lines[#lines + 1] = fish_option(condition, option)
    end
    local free, actions = first_of(command)
    if free or actions then
      lines[#lines + 1] = ("complete -c ridge -n '%s' -a '%s'"):format(condition,
        free and ('(%s)'):format(NAMES[free]) or actions)
    end
  end
  return table.concat(lines, '\n') .. '\n'
end

local SHELLS = { bash = bash, zsh = zsh, fish = fish }

--- Print the script.
---@param argv string[] the shell
---@return integer status 1 where there is no such shell
function M.main(argv)
  return stored.run('completion', SPEC, argv, nil, function(_, rest)
    local shell = SHELLS[rest[1]]
    if not shell then
      return stored.fail('completion', rest[1] and ("'%s' is none of bash, zsh, fish")
        :format(rest[1]) or 'the shell is missing: bash, zsh or fish')
    end
    io.stdout:write(shell(described.all()))
    return 0
  end)
end

return M
