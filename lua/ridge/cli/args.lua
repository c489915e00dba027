-- SPDX-License-Identifier: MIT
--- The options of a recipe, from an ordered list:
--
--   local opt = ridge.args {
--     {'widths', {512, 1024}, 'layer widths'},
--     {'dtype', 'f32', 'element type', choices = {'f32', 'bf16'}},
--     {'resume', false, 'go on from the newest checkpoint'},
--   }
--
-- The type of an option is the type of its default. `--name value` or `--name=value`; lists by
-- comma; `--flag` and `--no-flag`; `_` and `-` in names are the same. `--help` comes for free. An
-- option with a `short` letter may be written `-P value`, and one with `each` stands several times.

local blame = require 'ridge.blame'
local near = require 'ridge.near'

local M = {}

---@class ridge.cli.Option
---@field [1] string name
---@field [2] number|string|boolean|table default; its type is the option's
---@field [3] string|nil one line on what it is
---@field choices? any[] the values it may have, or each item of a list
---@field min? number smallest number
---@field max? number largest number
---@field integer? boolean numbers must be whole
---@field short? string one letter that means the same: -P
---@field writes? string 'file', 'folder' or 'either': what is written there; its folder is looked
---  for when the option is read, not after the work
---@field each? boolean a list with one item each time the option stands there, commas and all

local KINDS = { number = true, string = true, boolean = true, table = true }
local KEYS = { choices = true, min = true, max = true, integer = true, short = true, each = true,
  writes = true }

local function plain(name) return (name:gsub('%-', '_')) end
local function flag(name) return (#name > 1 and '--' or '-') .. name:gsub('_', '-') end

--- Options by name; raises on a list that is wrong itself.
local function check_spec(spec)
  local options = {}
  if type(spec) ~= 'table' then blame.raise('args: a list of options is expected') end
  for key in pairs(spec) do
    if type(key) ~= 'number' and key ~= 'rest' and key ~= 'most' and key ~= 'about' then
      blame.raise(("args: unknown key '%s'; known: about, most, rest"):format(tostring(key)))
    end
  end
  for i, option in ipairs(spec) do
    local name = type(option) == 'table' and option[1]
    if type(name) ~= 'string' or not name:find '^%a[%w_%-]*$' then
      blame.raise(('args: option %d has no name'):format(i))
    end
    for key in pairs(option) do
      if type(key) == 'string' and not KEYS[key] then
        blame.raise(("args: option '%s' has an unknown key '%s'; known: choices, each, integer, "
          .. 'max, min, short, writes'):format(name, key))
      end
    end
    if not KINDS[type(option[2])] then
      blame.raise(("args: the default of '%s' is %s; it is a number, a string, a boolean or a list")
        :format(name, tostring(option[2])))
    end
    if options[plain(name)] then blame.raise(("args: '%s' stands twice"):format(name)) end
    options[plain(name)] = option
  end
  return options
end

local function is_folder(path)
  local there = io.open(path .. '/.', 'r')
  if there then there:close() end
  return there ~= nil
end

-- Why nothing can be written at a path; nil: it may be.
local function no_place(path, writes)
  if path == '' or path == '-' then return nil end
  local folder = writes == 'folder' and path or path:match '^(.*/)[^/]*$' or '.'
  if folder ~= '/' then folder = folder:gsub('/+$', '') end
  local why
  if not is_folder(folder) then
    why = ("there is no folder '%s'"):format(folder)
  elseif writes == 'file' and is_folder(path) then
    why = 'it is a folder'
  elseif not require('ridge.store.place').writable(folder) and not path:find '^/dev/'
      and not path:find '^/proc/' then -- what is no file is written itself
    why = ("'%s' may not be written to"):format(folder)
  end
  return why and ("'%s' cannot be written: %s"):format(path, why)
end

--- One value of a kind from its text; nil and why not.
local function convert_one(option, kind, text)
  local value = text
  local missing = option.writes and no_place(text, option.writes)
  if missing then return nil, missing end
  if kind == 'number' then
    value = tonumber(text)
    if not value or value ~= value then return nil, ("'%s' is not a number"):format(text) end
    if option.integer and value ~= math.floor(value) then
      return nil, ("'%s' is not a whole number"):format(text)
    end
    -- from 2^53 on numbers are rounded: what was typed may be another one
    if option.integer and math.abs(value) >= 2 ^ 53 and not (option.max and value > option.max)
        and not (option.min and value < option.min) then
      return nil, ('%s is a larger number than can be counted with'):format(text)
    end
    if option.min and value < option.min then
      return nil, ('%s is less than %s'):format(text, tostring(option.min))
    end
    if option.max and value > option.max then
      return nil, ('%s is more than %s'):format(text, tostring(option.max))
    end
  end
  if option.choices then
    local names = {}
    for _, choice in ipairs(option.choices) do
      if choice == value then return value end
      if choice ~= '' then names[#names + 1] = tostring(choice) end
    end
    return nil, ("'%s' is none of %s%s"):format(text, table.concat(names, ', '),
      near.hint(text, names))
  end
  return value
end

local function convert(option, text)
  local default = option[2]
  if type(default) ~= 'table' or option.each then
    return convert_one(option, option.each and 'string' or type(default), text)
  end
  -- a list that is empty when left out: whole, or with limits, they are numbers
  local number = type(default[1]) == 'number' or option.integer or option.min or option.max
  local kind, list = number and 'number' or 'string', {}
  if text == '' then return list end
  for item in (text .. ','):gmatch '([^,]*),' do
    local value, reason = convert_one(option, kind, item:match '^%s*(.-)%s*$')
    if value == nil then return nil, reason end
    list[#list + 1] = value
  end
  return list
end

local TRUE = { ['true'] = true, yes = true, on = true, ['1'] = true }
local FALSE = { ['false'] = true, no = true, off = true, ['0'] = true }

local function copy(value)
  if type(value) ~= 'table' then return value end
  local list = {}
  for i, item in ipairs(value) do list[i] = item end
  return list
end

-- Two options that write to one file: the second would replace what the first has written.
local function written_twice(spec, values)
  local by = {}
  for _, option in ipairs(spec) do
    local path = option.writes and values[plain(option[1])]
    if path and path ~= '' and path ~= '-' and not path:find '^/dev/' then
      path = path:gsub('/+', '/'):gsub('^%./', '')
      if by[path] then
        return ("%s: '%s' is what %s writes, too"):format(flag(option[1]), path, flag(by[path]))
      end
      by[path] = option[1]
    end
  end
end

--- The option a flag names, and whether it says no; nil and the reason if there is none.
local function find(options, spec, name)
  local option = options[plain(name)]
  if option then return option, false end
  local positive = name:match '^no[%-_](.+)$'
  option = positive and options[plain(positive)]
  if option and type(option[2]) == 'boolean' then return option, true end
  local names = { 'help' }
  for _, each in ipairs(spec) do names[#names + 1] = each[1]:gsub('_', '-') end
  local hint = near.names(plain(name):gsub('_', '-'), names, 1)[1]
  local others = spec.rest and spec.rest:match '%-%- (.+)%]'
  return nil, ("unknown option '--%s'%s%s"):format(name,
    hint and (" (did you mean '--%s'?)"):format(hint) or '',
    others and ('; %s stand after --'):format(others) or '')
end

--- The word `-P value` or `-Pvalue` as `--name=value`; nil when no option has the letter.
local function long_form(spec, word, following)
  for _, option in ipairs(spec) do
    if (option.short or #option[1] == 1 and option[1]) == word:sub(2, 2) then
      if type(option[2]) == 'boolean' then
        return #word == 2 and '--' .. option[1] or nil, false
      end
      local text = #word > 2 and word:sub(3) or following
      return text and ('--%s=%s'):format(option[1], text) or '--' .. option[1], #word == 2
    end
  end
end

--- Set a boolean from `--flag`, `--no-flag`, `--flag=yes`.
local function read_boolean(negative, text)
  if text == nil then return not negative end
  if negative then return nil, 'it takes no value' end
  if TRUE[text] then return true end
  if FALSE[text] then return false end
  return nil, ("'%s' is neither true nor false"):format(text)
end

--- The words before "--", which are a command's, and those behind it, a recipe's own.
---@param argv string[]
---@return string[] ours
---@return string[] own
function M.split(argv)
  local ours, own = {}, {}
  local into = ours
  for _, word in ipairs(argv) do
    if word == '--' and into == ours then into = own else into[#into + 1] = word end
  end
  return ours, own
end

--- Read a list of arguments. Never ends the program, see `parse`.
---@param spec ridge.cli.Option[] the options; `rest` says what free arguments are,
---  `most` how many there may be
---@param argv string[] the arguments; off: names of options that are false or empty; once: an
---  option that is no list may stand there once only
---@return table|nil values by name; nil if something is wrong or help is asked for
---@return string[]|string rest the free arguments; 'help', or what is wrong
---@return table|nil said set of the options that stood there, whatever their value
function M.read(spec, argv)
  local options = check_spec(spec)
  local values, rest, said = {}, {}, {}
  for name, option in pairs(options) do values[name] = copy(option[2]) end
  local host = package.loaded['ridge.host']
  local device = host and host.settings and host.settings.device
  if device and options.device then values.device = device end -- ridge --device, before the file

  local i, only_free = 1, false
  while argv[i] do
    local word = argv[i]
    if not only_free and word:find '^%-%a' and word ~= '-h' then
      local long, took_next = long_form(spec, word, argv[i + 1])
      if long then word, i = long, took_next and i + 1 or i end
    end
    local name, text = word:match '^%-%-([^=]+)=?(.*)$'
    if not only_free and word == '--' then
      only_free = true
    elseif not only_free and (word == '--help' or word == '-h') then
      return nil, 'help'
    elseif not only_free and name then
      local option, negative = find(options, spec, name)
      if not option then return nil, negative end
      if not word:find('=', 1, true) then text = nil end
      local value, reason
      if type(option[2]) == 'boolean' then
        value, reason = read_boolean(negative, text)
      else
        if text == nil then
          i = i + 1
          text = argv[i]
          if not text or text:find '^%-%-' then
            return nil, ('%s needs a value'):format(flag(option[1]))
          end
        end
        value, reason = convert(option, text)
      end
      if value == nil then return nil, ('%s: %s'):format(flag(option[1]), reason) end
      local before = said[plain(option[1])]
      said[plain(option[1])] = true
      if before and argv.once and type(value) ~= 'table' and not option.each then
        return nil, ('%s: it is one, not a list'):format(flag(option[1]))
      end
      if option.each then
        table.insert(values[plain(option[1])], value)
      elseif before and type(value) == 'table' then -- a list that stands twice is one list
        for _, item in ipairs(value) do table.insert(values[plain(option[1])], item) end
      else
        values[plain(option[1])] = value
      end
    elseif not only_free and word:find '^%-%a' then
      return nil, ("unknown option '%s': options are written with two dashes"):format(word)
    else
      rest[#rest + 1] = word
    end
    i = i + 1
  end
  for _, each in ipairs(argv.off or {}) do
    local option, reason = find(options, spec, each)
    if not option then return nil, reason end
    local kind, key = type(option[2]), plain(option[1])
    if kind == 'boolean' then values[key], said[key] = false, true end
    if kind == 'table' then values[key], said[key] = {}, true end
  end
  if #rest > 0 and not spec.rest then
    return nil, ("unexpected argument '%s': options are written --name value"):format(rest[1])
  end
  if #rest > (spec.most or math.huge) then
    return nil, ("'%s' is too much"):format(rest[spec.most + 1])
  end
  local twice = written_twice(spec, values)
  if twice then return nil, twice end
  return values, rest, said
end

--- A default or a choice as text.
---@param value any
---@return string
function M.shown(value)
  if type(value) ~= 'table' then return tostring(value) end
  local texts = {}
  for i, item in ipairs(value) do texts[i] = tostring(item) end
  return table.concat(texts, ',')
end

--- How an option is written: its long flag, and what it takes.
---@param option ridge.cli.Option
---@return string flag '--no-reuse' where it is on without it
---@return string|nil takes 'N', 'TEXT' or 'A,B,..'
function M.left(option)
  local default = option[2]
  if type(default) == 'boolean' then return flag((default and 'no_' or '') .. option[1]), nil end
  return flag(option[1]), type(default) == 'table' and not option.each and 'A,B,..'
    or type(default) == 'number' and 'N' or 'TEXT'
end

--- What --help prints.
---@param spec ridge.cli.Option[] the options
---@param program string the name of the recipe
---@return string text
function M.help(spec, program)
  check_spec(spec)
  local lines = { ('usage: ridge %s [options]%s'):format(program,
    spec.rest and ' ' .. spec.rest or '') }
  if spec.about then lines[#lines + 1] = spec.about end
  lines[#lines + 1] = ''
  local rows, width = {}, 6
  for _, option in ipairs(spec) do
    local default = option[2]
    local left, takes = M.left(option)
    if takes then left = left .. ' ' .. takes end
    if option.short and #option[1] > 1 then left = ('-%s, %s'):format(option.short, left) end
    local facts = {}
    if option.choices then facts[1] = M.shown(option.choices):gsub('^,', ''):gsub(',', ' | ') end
    if type(default) ~= 'boolean' and M.shown(default) ~= '' then
      facts[#facts + 1] = 'default ' .. M.shown(default)
    end
    local right = option[3] or ''
    if #facts > 0 then right = right .. ' (' .. table.concat(facts, '; ') .. ')' end
    rows[#rows + 1] = { left, right }
    width = math.max(width, #left)
  end
  rows[#rows + 1] = { '--help', 'this text' }
  for _, row in ipairs(rows) do
    lines[#lines + 1] = ('  %-' .. width .. 's  %s'):format(row[1], row[2])
  end
  return table.concat(lines, '\n')
end

--- The options of a recipe, from the command line. `--help` prints them and ends the program with
--- status 0; what cannot be read ends it with status 1 and one sentence.
---@param spec ridge.cli.Option[] the options, in the order of the help
---@param argv? string[] the arguments, the command line's if not given
---@return table values by name
---@return string[] rest free arguments, if `spec.rest` says that there are any
-- >> ridge.args { {'epochs', 20, 'passes over the data'} }.epochs
function M.parse(spec, argv)
  local given = argv or rawget(_G, 'arg') or {}
  local values, rest = M.read(spec, given)
  if values then return values, rest end
  local program = given[0] or 'recipe'
  if rest == 'help' then
    io.stdout:write(M.help(spec, program), '\n')
    os.exit(0)
  end
  io.stderr:write(('%s: %s\ntry: ridge %s --help\n'):format(program, rest, program))
  os.exit(1)
end

return M
