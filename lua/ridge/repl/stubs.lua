-- SPDX-License-Identifier: MIT
--- What an editor's language server reads of ridge: meta files in the form of LuaLS, from the
--- public names, their docstrings, the specs of their options and ridge.types.

local argument = require 'ridge.repl.argument'
local canonical = require 'ridge.store.canonical'
local help = require 'ridge.repl.help'
local lexer = require 'ridge.repl.lexer'
local names = require 'ridge.repl.names'
local types = require 'ridge.types'

local M = {}

local PLAIN = { ['nil'] = true, boolean = true, number = true, integer = true, string = true,
  table = true, any = true, thread = true, userdata = true, cdata = 'any', list = 'any[]',
  ['function'] = 'function', Tensor = 'ridge.Tensor', Module = 'ridge.Module' }

-- A type of a docstring or a spec as LuaLS knows it; what it does not know is any.
local function type_of(text)
  local parts, seen = {}, {}
  for part in text:gsub('%s', ''):gmatch '[^|]+' do
    local name, list = part:match '^([%w_.]+)(%[?%]?)$'
    local known = name and PLAIN[name]
    local kind = part:find "^'[^']*'$" and part
      or known and (known == true and name or known) .. list or 'any'
    if kind == 'any' then return 'any' end
    if not seen[kind] then parts[#parts + 1], seen[kind] = kind, true end
  end
  return #parts > 0 and table.concat(parts, '|') or 'any'
end

local function comment(lines, text)
  if text == '' then return end
  for line in (text .. '\n'):gmatch '(.-)\n' do lines[#lines + 1] = '---' .. line end
end

local function one_line(text) return (text:gsub('%s+', ' ')) end

-- A field of that name in Lua.
local function field(owner, name)
  if name:find '^[%a_][%w_]*$' and not lexer.KEYWORDS[name] then return owner .. '.' .. name end
  return ("%s[%q]"):format(owner, name)
end

-- -- Options --------------------------------------------------------------------------------------

-- The class of an options table; nil where a function has none.
local function options_class(lines, title, f)
  local spec = argument.spec_of(f)
  if not spec or next(spec) == nil then return nil end
  local class, keys = title .. '.Options', {}
  for key in pairs(spec) do if type(key) == 'string' then keys[#keys + 1] = key end end
  table.sort(keys)
  lines[#lines + 1] = '---@class ' .. class
  for _, key in ipairs(keys) do
    local rule = spec[key]
    local kind = type_of(type(rule[1]) == 'string' and rule[1] or 'any')
    if rule.choices and kind == 'string' then
      local words = {}
      for i, word in ipairs(rule.choices) do words[i] = ("'%s'"):format(tostring(word)) end
      kind = table.concat(words, '|')
    end
    if key:find '^[%a_][%w_]*$' then
      lines[#lines + 1] = ('---@field %s%s %s %s'):format(key, rule.required and '' or '?', kind,
        one_line(rule.doc or '')):gsub(' +$', '')
    end
  end
  lines[#lines + 1] = ''
  return class
end

-- -- Functions ------------------------------------------------------------------------------------

-- Its parameters by name, as they stand in the source.
local function parameters_of(entry)
  local list = {}
  for name in (entry and entry.parameters or '...'):gmatch '[%w_.]+' do list[#list + 1] = name end
  return list
end

local CALLED = '---@overload fun(...: any): any'

local OPTIONS = { opt = true, opts = true, options = true, given = true }

-- The tags of a function; returns its list of parameters as text, and what it gives.
local function tags(lines, entry, class)
  local list, known, given = parameters_of(entry), {}, {}
  for _, p in ipairs(entry and entry.params or {}) do known[p.name] = p end
  for i, name in ipairs(list) do
    local p = known[name] or known[name .. '?']
    local kind, text = p and type_of(p.type) or 'any', p and one_line(p.text) or ''
    local optional = p and (p.type:find('nil', 1, true) or p.name:find '%?$')
    -- what can be called is taken, too: modules, captured functions
    kind = kind:gsub('%f[%w]function%f[%W]', 'function|table')
    if class and i == #list and (OPTIONS[name] or p and p.type:find 'table') then
      kind, optional = class, not p or optional
    end
    if lexer.KEYWORDS[name] then list[i] = '_' .. name end
    lines[#lines + 1] = ('---@param %s%s %s %s'):format(list[i],
      optional and name ~= '...' and '?' or '', kind, text):gsub(' +$', '')
  end
  for _, r in ipairs(entry and entry.returns or {}) do
    given[#given + 1] = type_of(r.type)
    lines[#lines + 1] = ('---@return %s # %s'):format(type_of(r.type), one_line(r.text))
      :gsub(' # $', '')
  end
  return table.concat(list, ', ')
end

local function put_function(lines, owner, name, title, f)
  local entry = help.entry_of(f)
  local class = options_class(lines, title, f)
  comment(lines, entry and entry.text or '')
  local list = tags(lines, entry, class)
  lines[#lines + 1] = ('%s = function(%s) end'):format(field(owner, name), list)
  lines[#lines + 1] = ''
end

-- What the objects of a class have: its functions, and fields that they get when they are made.
local function put_members(lines, class)
  local known, names_of = {}, {}
  while type(class) == 'table' do
    for key, value in pairs(class) do
      if type(key) == 'string' and type(value) == 'function' and key:find '^%a[%w_]*$'
          and not lexer.KEYWORDS[key] and key ~= 'init' and not known[key] then
        known[key], names_of[#names_of + 1] = value, key
      end
    end
    class = rawget(class, '__parent')
  end
  table.sort(names_of)
  for _, name in ipairs(names_of) do
    local entry = help.entry_of(known[name])
    lines[#lines + 1] = ('---@field %s function %s'):format(name,
      one_line(entry and entry.text:match '^[^\n]*' or '')):gsub(' +$', '')
  end
  lines[#lines + 1] = '---@field [string] any'
end

-- A class: called to make an object, which modules are in turn.
local function put_class(lines, owner, name, title, class)
  local init = help.member(class, 'init')
  local entry = type(init) == 'function' and help.entry_of(init) or nil
  local given = type(init) == 'function' and options_class(lines, title, init)
  comment(lines, entry and entry.text or rawget(class, '__doc') or '')
  for _, p in ipairs(entry and entry.params or {}) do
    comment(lines, ('`%s` %s'):format(p.name, one_line(p.text)))
  end
  local module = title:find '^ridge%.nn%.'
  lines[#lines + 1] = ('---@class %s%s'):format(title, module and ': ridge.Module' or '')
  if module then lines[#lines + 1] = CALLED end
  put_members(lines, class)
  lines[#lines + 1] = ''
  lines[#lines + 1] = ('---@class %s.Class'):format(title)
  put_members(lines, class)
  local list = {}
  for i, parameter in ipairs(parameters_of(entry)) do
    local is_given = given and OPTIONS[parameter]
    list[i] = parameter == '...' and '...: any'
      or ('%s?: %s'):format(lexer.KEYWORDS[parameter] and '_' .. parameter or parameter,
      is_given and given .. '|nil' or 'any')
  end
  lines[#lines + 1] = ('---@overload fun(%s): %s'):format(table.concat(list, ', '), title)
  lines[#lines + 1] = field(owner, name) .. ' = {}'
  lines[#lines + 1] = ''
end

local function put(lines, owner, name, title, value)
  local meta = debug.getmetatable(value)
  if type(value) == 'function' then
    put_function(lines, owner, name, title, value)
  elseif type(value) == 'table' and type(rawget(value, '__name')) == 'string' and meta
    and meta.__call then
    put_class(lines, owner, name, title, value)
  elseif type(value) == 'table' and meta and meta.__call then
    put_function(lines, owner, name, title, meta.__call)
  else
    local kind = type_of(type(value))
    lines[#lines + 1] = '---@type ' .. kind
    lines[#lines + 1] = ('%s = %s'):format(field(owner, name), kind == 'table' and '{}'
      or type(value) == 'string' and ('%q'):format(value) or tostring(value))
    lines[#lines + 1] = ''
  end
end

-- -- Types of values ------------------------------------------------------------------------------

local function sorted(t)
  local keys = {}
  for key in pairs(t) do if type(key) == 'string' then keys[#keys + 1] = key end end
  table.sort(keys)
  return keys
end

local OPERATORS = { 'add', 'sub', 'mul', 'div', 'pow', 'mod' }

local function put_types(lines)
  local of_tensor = {}
  for _, entry in ipairs(require('ridge.tensor.method').entries()) do
    of_tensor[entry.name] = entry
  end
  local list = types.all()
  table.sort(list, function(a, b) return a.name < b.name end)
  for _, entry in ipairs(list) do
    local class = 'ridge.' .. entry.name:gsub('[^%w_.]', '_')
    lines[#lines + 1] = '---@class ' .. class
    for _, name in ipairs(sorted(entry.properties)) do
      local about = entry.properties[name]
      lines[#lines + 1] = ('---@field %s any %s'):format(name, type(about) == 'string'
        and one_line(about) or ''):gsub(' +$', '')
    end
    if entry.name == 'Module' then
      lines[#lines + 1] = CALLED
      lines[#lines + 1] = '---@field [string] any'
    end
    if entry.name == 'Tensor' then
      for _, name in ipairs(OPERATORS) do
        lines[#lines + 1] = ('---@operator %s(ridge.Tensor|number): ridge.Tensor'):format(name)
      end
      lines[#lines + 1] = '---@operator unm: ridge.Tensor'
    end
    local owner = entry.name:gsub('[^%w_]', '_')
    lines[#lines + 1] = ('local %s = {}'):format(owner)
    lines[#lines + 1] = ''
    for _, name in ipairs(sorted(entry.methods)) do
      local about, known = entry.methods[name], entry.name == 'Tensor' and of_tensor[name]
      if known then
        comment(lines, known.text)
        local parameters = tags(lines, known)
        lines[#lines + 1] = ('function %s:%s(%s) end'):format(owner, name, parameters)
      elseif name:find '^[%a_][%w_]*$' and not lexer.KEYWORDS[name] then
        comment(lines, type(about) == 'string' and one_line(about) or '')
        lines[#lines + 1] = '---@param ... any'
        lines[#lines + 1] = '---@return any'
        lines[#lines + 1] = ('function %s:%s(...) end'):format(owner, name)
      end
      lines[#lines + 1] = ''
    end
  end
end

-- -- Files ----------------------------------------------------------------------------------------

local function whole(head, lines, tail)
  return head .. '\n' .. table.concat(lines, '\n') .. '\n' .. tail .. '\n'
end

--- The files, below a folder of an editor's project: ridge.lua, ridge/nn.lua ... in library, and
--- the settings that name it.
---@param root table the library
---@return table[] files each path, text
function M.files(root)
  local of, order, top = {}, {}, {}
  for _, name in ipairs(names.all(root)) do
    local module, last = name:match '^ridge%.([^.]+)%.([^.]+)$'
    if module then
      if not of[module] then of[module], order[#order + 1] = {}, module end
      table.insert(of[module], last)
    else
      top[#top + 1] = name:match '^ridge%.(.+)$'
    end
  end
  local main, files = {}, {}
  for _, name in ipairs(top) do
    local value = root[name]
    local meta = debug.getmetatable(value)
    local called = meta and meta.__call
    if type(value) == 'table' and (of[name] or not called) then
      main[#main + 1] = ('---@type ridge.%s'):format(name)
      main[#main + 1] = field('ridge', name) .. ' = {}'
      main[#main + 1] = ''
      local lines = { '---@class ridge.' .. name }
      if called then lines[2] = '---@overload fun(...: any): any' end
      lines[#lines + 1], lines[#lines + 2] = 'local M = {}', ''
      for _, last in ipairs(of[name] or {}) do
        put(lines, 'M', last, ('ridge.%s.%s'):format(name, last), value[last])
      end
      files[#files + 1] = { path = ('library/ridge/%s.lua'):format(name),
        text = whole('---@meta _', lines, 'return M') }
    else
      put(main, 'ridge', name, 'ridge.' .. name, value)
    end
  end
  local values = {}
  put_types(values)
  files[#files + 1] = { path = 'library/ridge/values.lua', text = whole('---@meta _', values, '') }
  table.insert(files, 1, { path = 'library/ridge.lua',
    text = whole('---@meta ridge', { '---@class ridge', 'local ridge = {}', '', unpack(main) },
      'return ridge') })
  table.insert(files, 1, { path = '.luarc.json', text = canonical.encode {
    ['runtime.version'] = 'LuaJIT', ['workspace.library'] = canonical.list { 'library' },
    ['diagnostics.globals'] = canonical.list { 'arg' } } .. '\n' })
  return files
end

return M
