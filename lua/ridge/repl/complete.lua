-- SPDX-License-Identifier: MIT
--- What TAB offers: names, fields, methods of tables and of ridge's own types, keywords, and file
--- names inside strings. Tables are walked raw: no user's __index function is ever called.

local argument = require 'ridge.repl.argument'
local commands = require 'ridge.repl.command'
local environment = require 'ridge.repl.environment'
local lexer = require 'ridge.repl.lexer'
local table_text = require('ridge.show.columns').text
local summary = require 'ridge.show.summary'
local types = require 'ridge.types'

local M = {}

local function by_name(a, b) return a.name < b.name end

local LISTED = 200 -- candidates shown at most

-- -- Where the cursor stands -----------------------------------------------------

---@class ridge.repl.Place
---@field kind 'name'|'file'|'none'
---@field chain string[] the names before the one being written: {'ridge', 'nn'}
---@field mark string|nil '.' or ':' before the one being written
---@field prefix string what is written of it so far

--- Read the text before the cursor.
---@param before string from the beginning of the line to the cursor
---@return ridge.repl.Place place
function M.place(before)
  local tokens, open = lexer.tokens(before)
  local n = #tokens
  if n > 0 and tokens[n].kind == 'comment' then return { kind = 'none' } end
  if open == 'string' then
    local text = tokens[n].text:gsub('^%[=*%[', ''):gsub('^["\']', '')
    return { kind = 'file', prefix = text }
  end
  local place = { kind = 'name', chain = {}, prefix = '' }
  local last = tokens[n]
  if last and (last.kind == 'name' or last.kind == 'keyword') then
    place.prefix = last.text
    n = n - 1
  end
  -- "1..x" and "x..": two dots are no field
  if tokens[n] and (tokens[n].text == '.' or tokens[n].text == ':') then
    place.mark = tokens[n].text
    while tokens[n] and (tokens[n].text == '.' or tokens[n].text == ':') do
      local owner = tokens[n - 1]
      if not owner then return { kind = 'none' } end
      if owner.kind == 'string' then
        table.insert(place.chain, 1, { string = true })
        return place
      end
      if owner.kind ~= 'name' then return { kind = 'none' } end -- f(x).y: not without calling f
      table.insert(place.chain, 1, owner.text)
      n = n - 2
    end
  end
  return place
end

-- -- Walking values -----------------------------------------------------------------

--- A field of a value, read raw through __index tables; a late module of ridge is loaded.
local function field(value, name)
  if type(value) == 'string' then return rawget(string, name) end
  for _ = 1, 20 do
    if type(value) ~= 'table' then return nil end
    local found = rawget(value, name)
    if found ~= nil then return found end
    local meta = debug.getmetatable(value)
    if type(meta) ~= 'table' then return nil end
    local late = rawget(meta, 'late')
    if type(late) == 'table' and late[name] then
      local ok, loaded = pcall(function() return value[name] end)
      return ok and loaded or nil
    end
    value = rawget(meta, '__index')
    if type(value) == 'function' then value = meta end -- a module's
  end
  return nil
end

--- A function, or a class: a table that can be called.
local function callable(value)
  if type(value) ~= 'table' then return type(value) == 'function' end
  local meta = debug.getmetatable(value)
  return type(meta) == 'table' and rawget(meta, '__call') ~= nil
end

local function add(list, seen, name, value)
  if type(name) == 'string' and not seen[name] and name:find '^[%a_][%w_]*$' then
    seen[name] = true
    list[#list + 1] = { name = name, callable = callable(value) }
  end
end

--- The string keys of a value and of what it inherits from.
local function fields_of(value)
  local list, seen = {}, {}
  local entry = types.of(value)
  if entry then
    for name in pairs(entry.methods) do add(list, seen, name, callable) end
    for name in pairs(entry.properties) do add(list, seen, name) end
  end
  if type(value) == 'string' then value = string end
  for _ = 1, 20 do
    if type(value) ~= 'table' then break end
    for name, v in next, value do add(list, seen, name, v) end
    local meta = debug.getmetatable(value)
    if type(meta) ~= 'table' then break end
    for name in pairs(rawget(meta, 'late') or {}) do add(list, seen, name) end
    value = rawget(meta, '__index')
  end
  return list
end

--- What stands behind the dot of a value: name and callable of each.
M.fields = fields_of

local function names_of(env)
  local list, seen = {}, {}
  for _, name in ipairs(environment.names(env)) do
    local value = rawget(env, name)
    if value == nil then value = rawget(_G, name) end
    add(list, seen, name, value)
  end
  for word in pairs(lexer.KEYWORDS) do add(list, seen, word) end
  return list
end

--- Everything that may stand at a place.
local function possible(place, env)
  if #place.chain == 0 then return names_of(env) end
  local first = place.chain[1]
  local value
  if type(first) == 'table' then
    value = ''
  else
    value = environment.lookup(env, first)
  end
  for i = 2, #place.chain do value = field(value, place.chain[i]) end
  if value == nil then return {} end
  return fields_of(value)
end

--- The letters of a word occur in a name in this order.
local function subsequence(word, name)
  local at = 1
  for c in word:gmatch '.' do
    at = name:find(c, at, true)
    if not at then return false end
    at = at + 1
  end
  return true
end

-- -- Files --------------------------------------------------------------------------

local function files(prefix)
  local host = package.loaded['ridge.host']
  if not host then return {}, prefix end
  local folder, begin = prefix:match '^(.*/)([^/]*)$'
  folder, begin = folder or '', begin or prefix
  local where = folder == '' and '.' or folder:gsub('^~/', (os.getenv 'HOME' or '~') .. '/')
  local list = {}
  for _, name in ipairs(host.directory(where) or {}) do
    local hidden = name:sub(1, 1) == '.' and begin:sub(1, 1) ~= '.'
    if not hidden and name:sub(1, #begin) == begin then list[#list + 1] = { name = name } end
  end
  return list, begin
end

-- -- Arguments and commands -------------------------------------------------------------

local function beginning_with(list, prefix)
  local kept = {}
  for _, item in ipairs(list) do
    if item.name:sub(1, #prefix) == prefix then kept[#kept + 1] = item end
  end
  return kept
end

--- What the call around the cursor takes there; nil if it says nothing about it.
local function from_call(before, env)
  local site = argument.site(before)
  if not site then return nil end
  local list = beginning_with(argument.options(site, env), site.prefix)
  if #list == 0 then
    list = beginning_with(argument.words(site, env), site.prefix)
    for _, item in ipairs(list) do item.suffix = site.quote end
  end
  if #list == 0 then return nil end
  table.sort(list, by_name)
  return list, site.prefix
end

local function commands_of(prefix)
  local list = {}
  for _, name in ipairs(commands.names()) do list[#list + 1] = { name = name, suffix = ' ' } end
  return beginning_with(list, prefix)
end

-- -- Candidates ------------------------------------------------------------------------

--- What may stand at the cursor.
---@param before string the text before the cursor
---@param env table the session's environment
---@return table[] candidates sorted: name, callable, suffix (behind it), hint (what it is)
---@return string prefix what is written of it so far
---@return boolean fuzzy no candidate begins with the prefix; these contain its letters
function M.candidates(before, env)
  local command, rest = before:match '^%s*%%([%w_]*)(.*)$'
  if command then
    if rest == '' then return commands_of(command), command, false end
    if commands.takes(command) == 'file' then
      return files(rest:match '%S*$')
    end
    before = rest
  end
  local place = M.place(before)
  if place.kind == 'none' then return {}, '', false end
  local called, written = from_call(before, env)
  if called then return called, written, false end
  local list, prefix = {}, place.prefix
  if place.kind == 'file' then
    list, prefix = files(prefix)
    table.sort(list, by_name)
    return list, prefix, false
  end
  local all = possible(place, env)
  for _, item in ipairs(all) do
    local hidden = item.name:sub(1, 1) == '_' and prefix:sub(1, 1) ~= '_'
    if not hidden and item.name:sub(1, #prefix) == prefix then list[#list + 1] = item end
  end
  local fuzzy = #list == 0 and #prefix >= 2
  if fuzzy then
    for _, item in ipairs(all) do
      if subsequence(prefix, item.name) then list[#list + 1] = item end
    end
  end
  table.sort(list, by_name)
  return list, prefix, fuzzy
end

local function common(list)
  local text = list[1].name
  for _, item in ipairs(list) do
    while item.name:sub(1, #text) ~= text do text = text:sub(1, -2) end
  end
  return text
end

--- Names in columns, as wide as the terminal.
local function columns(list)
  if list[1].hint then
    local rows = {}
    for i, item in ipairs(list) do rows[i] = { item.name, item.hint } end
    return table_text({ 'option', '' }, rows)
  end
  local width, lines = 0, {}
  for _, item in ipairs(list) do width = math.max(width, #item.name + 2) end
  local per_line = math.max(1, math.floor(summary.columns() / width))
  local shown = math.min(#list, LISTED)
  local rows = math.ceil(shown / per_line)
  for row = 1, rows do
    local cells = {}
    for k = row, shown, rows do
      cells[#cells + 1] = list[k].name .. (' '):rep(width - #list[k].name)
    end
    lines[row] = table.concat(cells):gsub('%s+$', '')
  end
  if shown < #list then lines[rows + 1] = ('... %d more'):format(#list - shown) end
  return table.concat(lines, '\n')
end

--- The answer to TAB: text to insert at the cursor, and a list to show if there are several ways.
---@param before string the text before the cursor
---@param after string the text behind it
---@param env table the session's environment
---@return string insert '' if there is nothing to insert
---@return string|nil list lines to show
function M.tab(before, after, env)
  if before:find '^%s*$' then return '  ', nil end -- at the beginning of a line TAB indents
  local list, prefix, fuzzy = M.candidates(before, env)
  if #list == 0 then return '', nil end
  if fuzzy then return '', columns(list) end
  local insert = common(list):sub(#prefix + 1)
  if #list == 1 then
    local suffix = list[1].callable and '(' or list[1].suffix or ''
    if after:sub(1, 1) ~= suffix:sub(1, 1) or suffix == '' then insert = insert .. suffix end
    return insert, nil
  end
  if insert ~= '' then return insert, nil end
  return '', columns(list)
end

return M
