-- SPDX-License-Identifier: MIT
--- Which names a text uses that nothing declares, and which fields of ridge that are not there: a
--- walk over all of its branches, with the scopes of its locals, without running it.
--
-- The text compiles: what is met here is Lua 5.1 with goto. A local that is a part of ridge (local
-- nn = ridge.nn) is one until something else is assigned to it. Names in brackets are names where
-- they are written there (ridge['nn']); what is computed is nobody's to judge, and who puts names
-- into a part of ridge that way may have put any.

local environment = require 'ridge.repl.environment'
local lexer = require 'ridge.repl.lexer'
local near = require 'ridge.near'

local M = {}

local UNARY = { ['not'] = true, ['-'] = true, ['#'] = true }
local BINARY = {}
for op in ('+ - * / % ^ .. == ~= <= >= < > and or'):gmatch '%S+' do BINARY[op] = true end
local ENDS = { ['end'] = true, ['else'] = true, ['elseif'] = true, ['until'] = true }

-- -- Tokens ---------------------------------------------------------------------------------------

local function text_at(w) return w.words[w.at] and w.words[w.at].text end

local function kind_at(w) return w.words[w.at] and w.words[w.at].kind end

local function take(w)
  local word = w.words[w.at]
  w.at = w.at + 1
  return word
end

local function taken(w, text)
  if text_at(w) ~= text or kind_at(w) == 'string' then return false end
  w.at = w.at + 1
  return true
end

-- -- Names ----------------------------------------------------------------------------------------

-- owner, field: the part of ridge that lacks a field.
local function say(w, word, text, owner, field)
  w.found[#w.found + 1] = { line = w.line_of(word.first), message = text, owner = owner,
    field = field }
end

-- Scopes are a list from the outermost on: a chain of __index ends behind a hundred of them.
local function open_scope(w) w.scopes[#w.scopes + 1] = {} end

local function close_scope(w) w.scopes[#w.scopes] = nil end

local function declare(w, name, path) w.scopes[#w.scopes][name] = { path = path } end

local function declared_as(w, name)
  for i = #w.scopes, 1, -1 do
    local found = w.scopes[i][name]
    if found then return found end
  end
end

-- All names that can be meant at a place.
local function visible(w)
  local list = {}
  for _, scope in ipairs(w.scopes) do
    for name in pairs(scope) do list[#list + 1] = name end
  end
  for name in next, w.globals do list[#list + 1] = tostring(name) end
  return list
end

local function use(w, word)
  local name = word.text
  local declared = declared_as(w, name)
  if declared then return declared.path end
  if w.globals[name] == nil then
    say(w, word, ("undeclared variable '%s'%s"):format(name, name == 'ridge'
      and ': ' .. environment.REQUIRE or near.hint(name, visible(w))))
  end
  return name == 'ridge' and name or nil
end

local function assign(w, word, path)
  local declared = declared_as(w, word.text)
  if declared then
    if declared.path ~= path then declared.path = nil end
    return
  end
  say(w, word, ("assignment to undeclared variable '%s': write `local %s`"):format(word.text,
    word.text))
end

-- Is a field of a part of ridge there?
local function check_field(w, pending)
  if not pending then return end
  local message = w.missing(pending.path, pending.name)
  if message then say(w, pending.word, message, pending.path, pending.name) end
end

-- A name of a part of ridge that was met, and what it is; nil where it is a part of no part.
local function field_of(path, word, name)
  if not path then return nil, nil end
  return { path = path, word = word, name = name },
    name:find '^[%a_][%w_]*$' and path .. '.' .. name or nil
end

-- The text of a string as it is written.
local function literal(word)
  local read = loadstring('return ' .. word.text)
  return read and read()
end

-- The string that is alone up to `closing`, which is there.
local function string_alone(w, at, closing)
  local word, behind = w.words[at], w.words[at + 1]
  if word and word.kind == 'string' and behind and behind.kind == 'op' and behind.text == closing
    then return literal(word) end
end

-- -- Expressions ----------------------------------------------------------------------------------

local expression, block

local function expressions(w)
  local list = { expression(w) or false }
  while taken(w, ',') do list[#list + 1] = expression(w) or false end
  return list
end

local function body(w, is_method)
  open_scope(w)
  if is_method then declare(w, 'self') end
  take(w) -- (
  while not taken(w, ')') do
    local word = take(w)
    if word.kind == 'name' then declare(w, word.text) end
  end
  block(w)
  take(w) -- end
  close_scope(w)
end

local function constructor(w)
  take(w) -- {
  while not taken(w, '}') do
    if taken(w, '[') then
      expression(w)
      w.at = w.at + 2 -- ] =
      expression(w)
    elseif kind_at(w) == 'name' and w.words[w.at + 1].text == '=' then
      w.at = w.at + 2
      expression(w)
    else
      expression(w)
    end
    if not taken(w, ',') then taken(w, ';') end
  end
end

-- The paths of ridge that are given.
local function arguments(w)
  local paths = {}
  if kind_at(w) == 'string' then
    take(w)
  elseif text_at(w) == '{' then
    constructor(w)
  else
    take(w) -- (
    if text_at(w) ~= ')' then paths = expressions(w) end
    take(w) -- )
  end
  return paths
end

local function is_arguments(w)
  return kind_at(w) == 'string' or text_at(w) == '{' or text_at(w) == '('
end

-- The part of ridge that a call of require behind its name gives; nil where it is none that has a
-- path. What is no module of ridge's is said.
local function required(w)
  local word = w.words[w.at]
  local name
  if word.kind == 'string' then
    name = literal(word)
  elseif word.text == '(' then
    word = w.words[w.at + 1]
    name = string_alone(w, w.at + 1, ')')
  end
  if name == 'ridge' then return name end
  if not (name and name:find '^ridge%.') then return nil end
  local path, message = w.module(name)
  if message then say(w, word, message, 'require') end
  return path
end

-- A name or an expression in parentheses, and what follows it. node: word (a name alone), path of
-- ridge that it is, pending (a field that was not looked for yet: it may be assigned to), computed
-- (the path of what has a computed field there).
local function suffixed(w)
  local node = {}
  if taken(w, '(') then
    expression(w)
    take(w) -- )
  else
    node.word = take(w)
    local global = not declared_as(w, node.word.text) and node.word.text
    if global == 'package' then w.open.require = true end -- where modules lie is the text's own
    if w.words[w.at] and is_arguments(w) then
      if global == 'require' then
        local path = required(w)
        use(w, node.word)
        arguments(w)
        node = { path = path }
      elseif global == 'rawset' or global == 'setmetatable' then
        use(w, node.word)
        w.open[arguments(w)[1] or ''] = true
        node = {}
      end
    end
  end
  local first = node.word
  while w.words[w.at] do
    local dot = text_at(w) == '.' and kind_at(w) == 'op'
    if not dot and not (text_at(w) == '[' and kind_at(w) == 'op') and text_at(w) ~= ':'
      and not is_arguments(w) then break end
    if first then
      node.path = use(w, first)
      first, node.word = nil, nil
    end
    check_field(w, node.pending)
    node.pending, node.computed = nil, nil
    local path = node.path
    if dot then
      take(w)
      local word = take(w)
      node.pending, node.path = field_of(node.path, word, word.text)
    elseif text_at(w) == '[' and kind_at(w) == 'op' then
      take(w)
      local word, name = w.words[w.at], string_alone(w, w.at, ']')
      node.computed = not name and node.path
      expression(w)
      take(w) -- ]
      node.pending, node.path = nil, nil
      if name then node.pending, node.path = field_of(path, word, name) end
    else
      if taken(w, ':') then
        local word = take(w)
        check_field(w, (field_of(node.path, word, word.text)))
      end
      node.path = nil
      arguments(w)
    end
  end
  return node
end

-- The path of ridge that a value is, which is read here.
local function read(w, node)
  if node.word then return use(w, node.word) end
  check_field(w, node.pending)
  return node.path
end

local function simple(w)
  local kind, text = kind_at(w), text_at(w)
  if kind == 'name' or text == '(' and kind == 'op' then return read(w, suffixed(w)) end
  if kind == 'op' and text == '{' then
    constructor(w)
  elseif kind == 'keyword' and text == 'function' then
    take(w)
    body(w)
  else
    take(w)
  end
end

function expression(w)
  local alone = true
  while true do
    while UNARY[text_at(w)] and kind_at(w) ~= 'string' do
      take(w)
      alone = false
    end
    local path = simple(w)
    if not (BINARY[text_at(w)] and kind_at(w) ~= 'string') then return alone and path or nil end
    take(w)
    alone = false
  end
end

-- -- Statements -----------------------------------------------------------------------------------

local STATEMENT = {}

STATEMENT['if'] = function(w)
  repeat
    expression(w)
    take(w) -- then
    block(w)
  until not taken(w, 'elseif')
  if taken(w, 'else') then block(w) end
  take(w) -- end
end

STATEMENT['while'] = function(w)
  expression(w)
  take(w) -- do
  block(w)
  take(w)
end

STATEMENT['do'] = function(w)
  block(w)
  take(w)
end

STATEMENT['for'] = function(w)
  local names = { take(w).text }
  while taken(w, ',') do names[#names + 1] = take(w).text end
  take(w) -- = or in
  expressions(w)
  take(w) -- do
  open_scope(w)
  for _, name in ipairs(names) do declare(w, name) end
  block(w)
  take(w)
  close_scope(w)
end

STATEMENT['repeat'] = function(w)
  open_scope(w) -- the condition sees the block's locals
  block(w, true)
  take(w) -- until
  expression(w)
  close_scope(w)
end

STATEMENT['function'] = function(w)
  local word = take(w)
  if text_at(w) ~= '.' and text_at(w) ~= ':' then
    assign(w, word)
    return body(w)
  end
  local path, pending = use(w, word), nil
  while true do
    local is_method = taken(w, ':')
    if not is_method and not taken(w, '.') then break end
    check_field(w, pending)
    local field = take(w)
    pending, path = field_of(path, field, field.text)
    if is_method then
      if path then w.defined[path] = true end
      return body(w, true)
    end
  end
  if path then w.defined[path] = true end
  body(w)
end

STATEMENT['local'] = function(w)
  if taken(w, 'function') then
    declare(w, take(w).text)
    return body(w)
  end
  local names = { take(w).text }
  while taken(w, ',') do names[#names + 1] = take(w).text end
  local paths = taken(w, '=') and expressions(w) or {}
  for i, name in ipairs(names) do declare(w, name, paths[i] or nil) end
end

STATEMENT['return'] = function(w)
  if w.words[w.at] and not ENDS[text_at(w)] and text_at(w) ~= ';' then expressions(w) end
end

STATEMENT['break'] = function() end
STATEMENT['goto'] = function(w) take(w) end
STATEMENT['::'] = function(w)
  take(w)
  take(w)
end
STATEMENT[';'] = function() end

local function assignment_or_call(w)
  local targets = { suffixed(w) }
  while taken(w, ',') do targets[#targets + 1] = suffixed(w) end
  if not taken(w, '=') then
    read(w, targets[1])
    return
  end
  local paths = expressions(w)
  for i, node in ipairs(targets) do
    if node.word then
      assign(w, node.word, paths[i] or nil)
    elseif node.pending then
      w.defined[node.pending.path .. '.' .. node.pending.name] = true
    elseif node.computed then
      w.open[node.computed] = true
    end
  end
end

function block(w, is_open)
  if not is_open then open_scope(w) end
  while w.words[w.at] and not (ENDS[text_at(w)] and kind_at(w) == 'keyword') do
    local rule = kind_at(w) ~= 'name' and STATEMENT[text_at(w)]
    if rule then
      take(w)
      rule(w)
    else
      assignment_or_call(w)
    end
  end
  if not is_open then close_scope(w) end
end

--- What is wrong with the names of a text that compiles.
---@param source string
---@param globals table names that are there, as _G has them
---@param missing fun(owner: string, field: string): string|nil what to say of a field of a part of
---  ridge ('ridge.nn'); nil where it is there
---@param module fun(name: string): string|nil, string|nil the path of the part of ridge that such a
---  module is ('ridge.nn'), nil where it is none; what to say where there is no such module
---@return table[] found { line, message }, by line
function M.check(source, globals, missing, module)
  -- as LuaJIT reads a file: the mark of UTF-8 and a first line of the shell's are no Lua
  source = source:gsub('^\239\187\191', ''):gsub('^#[^\n]*', '')
  local lines = { 1 }
  for at in source:gmatch '\n()' do lines[#lines + 1] = at end
  local w = { words = lexer.words(source), at = 1, scopes = {}, globals = globals,
    missing = missing, module = module, found = {}, defined = {}, open = {} }
  function w.line_of(position)
    local low, high = 1, #lines
    while low < high do
      local middle = math.ceil((low + high) / 2)
      if lines[middle] <= position then low = middle else high = middle - 1 end
    end
    return low
  end
  block(w)
  local found = {}
  for i, each in ipairs(w.found) do
    -- what the text puts there itself, before or behind the place, is there
    local put = each.owner and (w.open[each.owner]
      or each.field and w.defined[each.owner .. '.' .. each.field])
    if not put then found[#found + 1] = { line = each.line, message = each.message, i = i } end
  end
  table.sort(found, function(a, b)
    if a.line ~= b.line then return a.line < b.line end
    return a.i < b.i
  end)
  return found
end

return M
