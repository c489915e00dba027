-- SPDX-License-Identifier: MIT
--- Help from the docstrings: `?name` and `name?` at the prompt, `ridge help name` in the shell,
-- `?"text"` to search. A misspelt name lists near ones.

local annotations = require 'ridge.repl.annotations'
local colour = require 'ridge.show.colour'
local command = require 'ridge.repl.command'
local environment = require 'ridge.repl.environment'
local guard = require 'ridge.guard'
local public = require 'ridge.repl.names'
local near = require 'ridge.near'
local sources = require 'ridge.repl.sources'
local types = require 'ridge.types'

local M = {}

local index -- filled when first asked

local described = setmetatable({}, { __mode = 'k' }) -- functions made from a table, and their text

--- Say what help shows for a function that has no docstring of its own.
---@param f function
---@param text fun(name: string): string the text, made when it is asked for
function M.describe(f, text) described[f] = text end

local function add(entry)
  index.entries[#index.entries + 1] = entry
  local same = index.by_name[entry.name] or {}
  same[#same + 1] = entry
  index.by_name[entry.name] = same
end

--- Read every source, and the core's records, once.
local function read_index()
  if index then return index end
  index = { entries = {}, modules = {}, by_name = {}, by_place = {} }
  for _, path in ipairs(sources.files()) do
    local module = sources.module_of(path)
    local entries, text = annotations.parse(sources.text(path))
    index.modules[module] = { name = module, text = text, entries = entries, path = path }
    for _, entry in ipairs(entries) do
      entry.path = path
      entry.module = module
      local owner = entry.returned and module or entry.owner or module
      if owner == 'methods' and module:find '^ridge%.tensor' then
        owner, entry.method, entry.of_tensor = 'Tensor', true, true
      end
      entry.title = owner .. (entry.method and ':' or '.') .. entry.name
      index.by_place[path .. ':' .. entry.line] = entry
      if entry.owner then add(entry) end
    end
  end
  for _, entry in ipairs(require('ridge.tensor.method').entries()) do -- loads the core
    entry.title = 'Tensor:' .. entry.name
    add(entry)
  end
  return index
end

-- -- Text -----------------------------------------------------------------------

--- The first sentence of a text, cut where a list would wrap.
local function first_sentence(text)
  local flat = text:gsub('%s+', ' ')
  local sentence = flat:match '^(.-%.)%s' or flat
  return #sentence <= 100 and sentence or sentence:sub(1, 97):gsub('%s%S*$', '') .. ' ...'
end

local function table_lines(lines, rows)
  local widths = { 0, 0 }
  for _, row in ipairs(rows) do
    for i = 1, 2 do widths[i] = math.max(widths[i], math.min(#row[i], 24)) end
  end
  local form = '  %-' .. widths[1] .. 's  %-' .. widths[2] .. 's  %s'
  for _, row in ipairs(rows) do
    lines[#lines + 1] = form:format(row[1], row[2], row[3]):gsub('%s+$', '')
  end
end

local function indent(lines, text)
  for line in (text .. '\n'):gmatch '(.-)\n' do
    lines[#lines + 1] = line ~= '' and '  ' .. line or ''
  end
end

--- One entry in full.
local function entry_text(entry, title)
  local head = (title or entry.title) .. '(' .. entry.parameters .. ')'
  local place = entry.path and '  ' .. colour.paint('dim', ('%s:%d'):format(entry.path, entry.line))
  local lines = { colour.paint('bold', head) .. (place or '') }
  if entry.text ~= '' then indent(lines, entry.text) end
  local rows = {}
  for _, p in ipairs(entry.params) do rows[#rows + 1] = { p.name, p.type, p.text } end
  for _, r in ipairs(entry.returns) do rows[#rows + 1] = { 'returns', r.type, r.text } end
  table_lines(lines, rows)
  for _, example in ipairs(entry.examples) do lines[#lines + 1] = '  >> ' .. example end
  return table.concat(lines, '\n')
end

local function list_text(head, rows)
  local lines, width = { head }, 0
  for _, row in ipairs(rows) do width = math.max(width, math.min(#row[1], 36)) end
  for _, row in ipairs(rows) do
    lines[#lines + 1] = ('  %-' .. width .. 's  %s'):format(row[1], row[2]):gsub('%s+$', '')
  end
  return table.concat(lines, '\n')
end

--- What can be called through a module: its own functions, those it hands on, those that come late.
local function module_rows(module, value)
  local rows, seen = {}, {}
  for name, field in next, value or {} do
    local entry = type(field) == 'function' and M.entry_of(field)
    if entry and type(name) == 'string' then
      seen[name] = true
      rows[#rows + 1] = { name .. '(' .. entry.parameters .. ')', first_sentence(entry.text) }
    end
  end
  for _, entry in ipairs(module.entries) do
    if entry.returned and not seen[entry.name] then
      rows[#rows + 1] = { entry.name .. '(' .. entry.parameters .. ')', first_sentence(entry.text) }
    end
    seen[entry.name] = true
  end
  local meta = value and debug.getmetatable(value)
  for name, late in next, type(meta) == 'table' and rawget(meta, 'late') or {} do
    local path, member = late, nil
    if type(late) == 'table' then path, member = late[1], late[2] end
    local other = read_index().modules[path]
    local about = other and other.text
    for _, entry in ipairs(member and other and other.entries or {}) do
      if entry.returned and entry.name == member then about = entry.text end
    end
    if about and not seen[name] then rows[#rows + 1] = { name, first_sentence(about) } end
  end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return rows
end

local function module_text(module, value)
  local lines = { colour.paint('bold', module.name) .. '  ' .. colour.paint('dim', module.path) }
  if module.text ~= '' then indent(lines, module.text) end
  local rows = module_rows(module, value)
  if #rows == 0 then return table.concat(lines, '\n') end
  return list_text(table.concat(lines, '\n'), rows)
end

--- What a registered type can do.
local function type_text(entry)
  local rows = {}
  for _, part in ipairs { { entry.properties, '.' }, { entry.methods, ':' } } do
    local names = {}
    for name in pairs(part[1]) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      local text = part[1][name]
      rows[#rows + 1] = { part[2] .. name, type(text) == 'string' and text or '' }
    end
  end
  return list_text(colour.paint('bold', entry.name), rows)
end

local OVERVIEW = [[
ridge: find where neural networks run fast, and tell the truth about it.

at the prompt
  expression       its value is shown; a `;` behind it keeps quiet
  local x = 1      stays for the next lines
  _  _1 _2 _3      the last values, the newest first
  ?name  name?     help: ?ridge.randn  ?ridge.nn  ?x  ?x.sum
  ?"words"         help that contains the words; ??name shows the source
  %                commands: %bench %time %prof %who %mem %sql %history ...
  !command         the shell; x = !ls keeps the lines
  str(x)  summary(x)  what a value is made of, what is in it
  TAB              completes names, fields, methods, file names
  Ctrl-R           searches the history; Ctrl-C stops what runs; Ctrl-D ends

start
  ?ridge           what the library has
  x = ridge.randn(3, 4)
  x:sum(-1)

RIDGE_TRACE=full shows whole tracebacks, NO_COLOR=1 takes the colour away.]]

-- -- Finding --------------------------------------------------------------------------

--- A field of a table, read raw through what it inherits from; ridge's late modules are loaded.
---@param value table
---@param name string
---@return any field
function M.member(value, name)
  local found = rawget(value, name)
  local meta = debug.getmetatable(value)
  if found ~= nil or type(meta) ~= 'table' then return found end
  if type(meta.late) == 'table' and meta.late[name] then found = value[name] end
  local class = rawget(meta, '__index')
  if type(class) == 'function' then class = meta end -- a module's
  while found == nil and type(class) == 'table' do
    found = rawget(class, name)
    class = (debug.getmetatable(class) or {}).__index
  end
  return found
end

--- The value of a dotted name, read without calling anybody's code but ridge's own late loading.
local function resolve(name, env)
  local value
  for part in name:gmatch '[^.:]+' do
    if value == nil then
      value = environment.lookup(env, part)
    elseif type(value) == 'table' then
      value = M.member(value, part)
    else
      return nil
    end
    if value == nil then return nil end
  end
  return value
end

--- The docstring of a function, by the place where it stands; nil if it has none.
---@param f function any function
---@return ridge.repl.Entry|nil entry
function M.entry_of(f)
  local info = debug.getinfo(guard.original(f), 'S')
  local path = sources.path_of(info.source)
  return path and read_index().by_place[path .. ':' .. info.linedefined]
end

--- What the comment at the head of a module's file says.
---@param name string 'ridge.nn'
---@return string|nil text
function M.about(name)
  local module = read_index().modules[name]
  return module and module.text
end

local function module_of_value(value)
  for name, loaded in pairs(package.loaded) do
    if rawequal(loaded, value) and read_index().modules[name] then
      return read_index().modules[name]
    end
  end
  return nil
end

--- Help for a value; nil if nothing is known about it.
local function value_text(name, value)
  if type(value) == 'function' then
    local entry = M.entry_of(value)
    if entry then return entry_text(entry, name) end
    local text = described[guard.original(value)]
    if text then return text(name) end
    local info = debug.getinfo(guard.original(value), 'S')
    if info.what == 'C' then return name .. ': a function of Lua itself or of a C library' end
    return ('%s: a function without a docstring  %s:%d'):format(name, info.short_src,
      info.linedefined)
  end
  local entry = types.of(value)
  if entry then return type_text(entry) end
  if type(value) ~= 'table' then return nil end
  local module = module_of_value(value)
  if module then return module_text(module, value) end
  local init = rawget(value, 'init')
  if type(init) == 'function' then
    local found = M.entry_of(init)
    if found then return entry_text(found, name) end
  end
  local about = rawget(value, '__doc') -- of classes that a function made
  if type(about) == 'string' then return colour.paint('bold', name) .. '\n  ' .. about end
  return nil
end

--- Help for `x:sum`, where x is a value of a registered type.
local function member_text(name, env)
  local object, member = name:match '^(.+)[.:]([%w_]+)$'
  local value = object and resolve(object, env)
  local entry = value ~= nil and types.of(value)
  local text = entry and (entry.methods[member] or entry.properties[member])
  if not text then return nil end
  for _, found in ipairs(read_index().by_name[member] or {}) do
    if found.module:find '^ridge%.tensor' then return entry_text(found, name) end
  end
  return name .. ': ' .. tostring(text)
end

--- The library; nil in a process whose core does not load.
local function library()
  local ok, ridge = pcall(require, 'ridge')
  return ok and ridge or nil
end

-- Help for `Sequential:add` or `adam.step`: a method of a class that is public under that name.
local function of_class(name, env)
  local owner, member = name:match '^([%w_.]+)[.:]([%w_]+)$'
  local ridge = owner and library()
  for _, title in ipairs(ridge and public.meant(ridge, owner) or {}) do
    local class = resolve(title, env)
    local f = type(class) == 'table' and rawget(class, '__name') and M.member(class, member)
    if type(f) == 'function' and M.entry_of(f) then
      return entry_text(M.entry_of(f), ('%s:%s'):format(title, member))
    end
  end
end

-- What stands under a title: an entry's text, or that of a public name.
local function titled(title, env, entries)
  if entries[title] then return entry_text(entries[title]) end
  return value_text(title, resolve(title, env))
end

local function summary_of(title, env, entries)
  if entries[title] then return first_sentence(entries[title].text) end
  local text = value_text(title, resolve(title, env)) or ''
  return first_sentence((text:match '\n%s*([^\n]*)') or '')
end

--- Help by a bare name, wherever it is, and by a public name in any case: what users call goes
--- before what ridge keeps to itself, and the very case before another.
local function by_name(name, env)
  local last = name:match '([%w_]+)$'
  if not last then return nil end
  local exact, others, hidden, entries = {}, {}, {}, {}
  for _, entry in ipairs(read_index().by_name[last] or {}) do
    if not name:find '[.:]' or entry.title == name or entry.title:gsub(':', '.') == name then
      entries[entry.title] = entry
      local called = entry.title:find '^Tensor' or entry.title:find '^ridge%.nn%.module:'
      local list = called and exact or hidden
      list[#list + 1] = entry.title
    end
  end
  local ridge = library()
  for _, title in ipairs(ridge and public.meant(ridge, name) or {}) do
    if resolve(title, env) ~= nil and value_text(title, resolve(title, env)) then
      local list = title:sub(-#last) == last and exact or others
      list[#list + 1] = title
    end
  end
  local ranked = { exact, others, hidden }
  local all, first = {}, nil
  for _, list in ipairs(ranked) do
    if not first and #list > 0 then first = list end
    for _, title in ipairs(list) do all[#all + 1] = title end
  end
  if not first then return nil end
  if #first == 1 then
    local also = #all > 1 and '\nalso: ' .. table.concat(all, ', ', 2) or ''
    return titled(first[1], env, entries) .. also
  end
  local rows = {}
  for i, title in ipairs(all) do rows[i] = { title, summary_of(title, env, entries) } end
  return list_text(("several are called '%s':"):format(last), rows)
end

--- Help that contains some words.
---@param words string what to look for, in any case
---@return string text
function M.search(words)
  local rows, small = {}, words:lower()
  for _, entry in ipairs(read_index().entries) do
    if (entry.title .. ' ' .. entry.text):lower():find(small, 1, true) then
      rows[#rows + 1] = { entry.title, first_sentence(entry.text) }
    end
  end
  if #rows == 0 then return ("nothing in the help contains '%s'"):format(words) end
  return list_text(("help that contains '%s':"):format(words), rows)
end

--- Every name that help knows.
local function known_names()
  local names = {}
  for name in pairs(read_index().by_name) do names[#names + 1] = name end
  for name in pairs(read_index().modules) do names[#names + 1] = name end
  for _, entry in ipairs(read_index().entries) do names[#names + 1] = entry.title end
  return names
end

--- Help for a name; nil, and a sentence with near names, if there is none.
---@param topic string a name, 'a.b.c', a word in quotes, or '' for the overview
---@param env? table where names are looked up first
---@return string|nil text
---@return string|nil reason
function M.lookup(topic, env)
  topic = topic:match '^%s*(.-)%s*$'
  if topic == '' or topic == 'help' then return OVERVIEW end
  local asked = topic:match '^%%%s*(%w*)$'
  if asked then
    local text = command.help(asked)
    if text then return text end
    return nil, ('there is no command %%%s%s'):format(asked, near.hint(asked, command.names()))
  end
  local words = topic:match '^"(.*)"$' or topic:match "^'(.*)'$"
  if words then return M.search(words) end
  local value = resolve(topic, env)
  if value == nil and resolve('ridge.' .. topic, env) ~= nil then -- nn.Linear is ridge.nn.Linear
    topic = 'ridge.' .. topic
    value = resolve(topic, env)
  end
  local module = read_index().modules[topic]
  local text = (value ~= nil and value_text(topic, value)) or member_text(topic, env)
    or (module and module_text(module)) or by_name(topic, env) or by_name(topic:lower(), env)
    or of_class(topic, env)
  if text then return text end
  if value ~= nil then return ('%s is a %s'):format(topic, type(value)) end
  local last = topic:match '([%w_]+)$' or topic
  local ridge = library()
  local list = ridge and public.near(ridge, topic, 3) or {}
  for _, entry in ipairs(read_index().by_name[last] or {}) do -- the owner is not known
    if #list < 5 then list[#list + 1] = entry.title end
  end
  for _, name in ipairs(near.names(last, known_names(), 5)) do
    if #list < 5 then list[#list + 1] = name end
  end
  local hint = #list > 0 and '; near: ' .. table.concat(list, ', ') or ''
  return nil, ("no help for '%s'%s"):format(topic, hint)
end

--- Where the function of a name stands in ridge's sources, found by name alone.
---@param name string 'ridge.near.hint' or 'hint'
---@return ridge.repl.Entry|nil entry nil if none or several are called so
function M.place_of(name)
  local found = read_index().by_name[name:match '([%w_]+)$' or ''] or {}
  local exact = {}
  for _, entry in ipairs(found) do
    if entry.title == name or entry.title:gsub(':', '.') == name then exact[#exact + 1] = entry end
  end
  if #exact == 0 and not name:find '[.:]' then exact = found end
  return #exact == 1 and exact[1] or nil
end

--- The value of a dotted name, see `lookup`.
M.resolve = resolve

return M
