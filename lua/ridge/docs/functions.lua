-- SPDX-License-Identifier: MIT
--- The reference of functions: a page for each namespace, made from the public names, docstrings
--- and the specs that options are checked against.

local argument = require 'ridge.repl.argument'
local help = require 'ridge.repl.help'
local names = require 'ridge.repl.names'
local pages = require 'ridge.docs.pages'
local types = require 'ridge.types'

local M = {}

local function one_line(text) return (text:gsub('%s+', ' ')) end

-- A cell of a table: a bar would end it.
local function cell(text) return (one_line(text):gsub('|', '\\|')) end

local function code(text) return text == '' and '' or '`' .. text .. '`' end

--- Rows as a table of Markdown, nothing where there are none.
---@param lines string[] where it goes
---@param heads string[]
---@param rows string[][]
function M.table(lines, heads, rows)
  if #rows == 0 then return end
  local rule = {}
  for i in ipairs(heads) do rule[i] = '---' end
  lines[#lines + 1] = '| ' .. table.concat(heads, ' | ') .. ' |'
  lines[#lines + 1] = '|' .. table.concat(rule, '|') .. '|'
  for _, row in ipairs(rows) do
    local cells = {}
    for i = 1, #heads do cells[i] = cell(row[i] or '') end
    lines[#lines + 1] = '| ' .. table.concat(cells, ' | ') .. ' |'
  end
  lines[#lines + 1] = ''
end

--- A docstring without the numbers of the documents' lines, which are for who changes the code.
---@param text string
---@return string text
function M.plain(text) return (text:gsub('%s*%(F%d[^)]*%)', '')) end

-- A docstring as it stands, without what Markdown would take for something else: < begins a tag.
local function prose(lines, text)
  if text == '' then return end
  lines[#lines + 1] = (M.plain(text):gsub('<', '\\<'):gsub('%*', '\\*'))
  lines[#lines + 1] = ''
end

local function sorted(t)
  local keys = {}
  for key in pairs(t) do if type(key) == 'string' then keys[#keys + 1] = key end end
  table.sort(keys)
  return keys
end

local function shown(value)
  if type(value) == 'string' then return ("'%s'"):format(value) end
  return type(value) == 'table' and '{ .. }' or tostring(value)
end

local function options_of(lines, f)
  local spec = argument.spec_of(f)
  if not spec then return end
  local rows = {}
  for _, key in ipairs(sorted(spec)) do
    local rule = spec[key]
    local does = rule.doc or ''
    if rule.choices then
      local words = {}
      for i, word in ipairs(rule.choices) do words[i] = tostring(word) end
      does = ('%s (%s)'):format(does, table.concat(words, ', ')):gsub('^ ', '')
    end
    local default = rule.required and 'required'
      or rule.default ~= nil and code(shown(rule.default)) or ''
    rows[#rows + 1] = { code(key), type(rule[1]) == 'string' and rule[1] or '', default, does }
  end
  M.table(lines, { 'option', 'type', 'default', 'what' }, rows)
end

-- What a docstring says of a function: text, parameters, options, results, examples.
local function entry_of(lines, entry, f)
  prose(lines, entry.text)
  local rows = {}
  for _, p in ipairs(entry.params) do rows[#rows + 1] = { code(p.name), p.type, p.text } end
  for _, r in ipairs(entry.returns) do rows[#rows + 1] = { 'returns', r.type, r.text } end
  M.table(lines, { 'parameter', 'type', 'what' }, rows)
  if f then options_of(lines, f) end
  if #entry.examples > 0 then
    lines[#lines + 1] = '```lua'
    for _, example in ipairs(entry.examples) do lines[#lines + 1] = '>> ' .. example end
    lines[#lines + 1] = '```\n'
  end
end

local function heading(lines, title, parameters)
  lines[#lines + 1] = '## ' .. title
  lines[#lines + 1] = ''
  if parameters then lines[#lines + 1] = ('```lua\n%s(%s)\n```\n'):format(title, parameters) end
end

-- The methods that a class has itself, with a docstring.
local function methods_of(lines, class)
  local rows = {}
  for _, name in ipairs(sorted(class)) do
    local f = rawget(class, name)
    local entry = type(f) == 'function' and name:find '^%l' and name ~= 'init' and help.entry_of(f)
    if entry and entry.text ~= '' then
      rows[#rows + 1] = { code((':%s(%s)'):format(name, entry.parameters)), (entry.text) }
    end
  end
  M.table(lines, { 'method', 'what' }, rows)
end

-- A value that is called: a function, a class, or a namespace that is both.
local function put(lines, title, value)
  local meta = debug.getmetatable(value)
  local is_class = type(value) == 'table' and type(rawget(value, '__name')) == 'string'
  local f = value
  if is_class then f = help.member(value, 'init') elseif type(value) == 'table' then
    f = meta and meta.__call
  end
  local entry = type(f) == 'function' and help.entry_of(f)
  if not entry then
    heading(lines, title)
    -- what a function made: help has a text for it
    local text = help.lookup(title, {})
    if text then lines[#lines + 1] = '```\n' .. text .. '\n```\n' end
  else
    heading(lines, title, entry.parameters)
    entry_of(lines, entry, f)
  end
  if is_class then methods_of(lines, value) end
end

-- What a module's file says at its head.
local function about(name)
  local text = help.about(name)
  return text and text ~= '' and M.plain(text) or ('What `%s` has.'):format(name)
end

local function page_of(name, about_text, lines)
  return pages.page(name, ('%s\n\n%s\n\n%s'):format('# ' .. name:match '/(.*)$', about_text,
    table.concat(lines, '\n')))
end

-- Methods and properties of values: tensors, plans, modules ...
local function values()
  local of_tensor = {}
  for _, entry in ipairs(require('ridge.tensor.method').entries()) do
    of_tensor[entry.name] = entry
  end
  local list = types.all()
  table.sort(list, function(a, b) return a.name < b.name end)
  local tensor, others = {}, {}
  for _, kind in ipairs(list) do
    local is_tensor = kind.name == 'Tensor'
    local lines, rows = is_tensor and tensor or others, {}
    if not is_tensor then heading(lines, kind.name) end
    for _, name in ipairs(sorted(kind.properties)) do
      local text = kind.properties[name]
      rows[#rows + 1] = { code('.' .. name), type(text) == 'string' and text or '' }
    end
    for _, name in ipairs(sorted(kind.methods)) do
      local text = kind.methods[name]
      if not (is_tensor and of_tensor[name]) then
        rows[#rows + 1] = { code(':' .. name), type(text) == 'string' and text or '' }
      end
    end
    M.table(lines, { 'name', 'what' }, rows)
    for _, name in ipairs(is_tensor and sorted(kind.methods) or {}) do
      local entry = of_tensor[name]
      if entry then
        heading(lines, 'x:' .. name, entry.parameters)
        entry_of(lines, entry)
      end
    end
  end
  return { page_of('reference/tensor', 'What every tensor can do.', tensor),
    page_of('reference/values', 'What the other values of ridge can do: plans, graphs, nets and '
      .. 'what was measured.', others) }
end

--- The pages: `ridge` itself, one for each namespace, those of values.
---@param root table the library
---@return ridge.docs.Page[] pages
function M.pages(root)
  local top, of, order = {}, {}, {}
  for _, name in ipairs(names.all(root)) do
    local module, last = name:match '^ridge%.([^.]+)%.([^.]+)$'
    if module then
      if not of[module] then of[module], order[#order + 1] = {}, module end
      put(of[module], name, root[module][last])
    end
  end
  for _, name in ipairs(names.all(root)) do
    local last = name:match '^ridge%.([^.]+)$'
    local value = last and root[last]
    local meta = debug.getmetatable(value)
    if last and (type(value) == 'function' or type(value) == 'table' and meta and meta.__call) then
      put(top, name, value)
    end
  end
  local list = { page_of('reference/ridge', about 'ridge', top) }
  for _, module in ipairs(order) do
    list[#list + 1] = page_of('reference/ridge.' .. module, about('ridge.' .. module), of[module])
  end
  for _, page in ipairs(values()) do list[#list + 1] = page end
  return list
end

return M
