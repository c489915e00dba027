-- SPDX-License-Identifier: MIT
--- What a typed text is: an expression, statements, the beginning of either, or wrong.
--
-- Two parses: as an expression, then as statements. It is incomplete if either error ends in
-- "near '<eof>'" (`{1,` and `x +` only show it in the first form), except an unfinished string,
-- which no further line can finish.

local lexer = require 'ridge.repl.lexer'
local locals = require 'ridge.repl.locals'

local M = {}

local function unfinished(message)
  return message:find("near '<eof>'$") ~= nil and not message:find('unfinished string', 1, true)
end

--- Whether a text ends in `;`: its value is not shown then.
---@param source string what was typed
---@return boolean silent
function M.silent(source)
  local words = lexer.words(source)
  return #words > 0 and words[#words].text == ';'
end

-- What a command of the shell is told that is typed here: `help linear`, `show 3`.
local function of_shell(source)
  local word, rest = source:match '^%s*(%l+)%s+([%w_.-][^=]*)$'
  if word == 'help' then return ('; ?%s shows help'):format(rest:match '^[%w_.]*') end
  local ridge = require 'ridge'
  local is_call = word and (rawget(ridge, word) ~= nil or getmetatable(ridge).late[word] ~= nil)
  return is_call and ('; it is written ridge.%s(...)'):format(word) or ''
end

local LINES = 200 -- of a last expression

-- Statements and a last expression that begins a line of its own, as cells of notebooks end: the
-- chunk returns nil, then its values. A text that is statements as a whole ends in one only where
-- the line begins with a name: a bracket or a sign would go on with the line before.
local function last_expression(source, name, is_whole)
  local at = #source
  for _ = 1, LINES do
    while at > 0 and source:byte(at) ~= 10 do at = at - 1 end
    if at == 0 then return nil end
    local tail = source:sub(at + 1)
    if (not is_whole or tail:find '^%s*[%a_]') and loadstring('return nil, ' .. tail) then
      local head = source:sub(1, at)
      return loadstring(head) and loadstring(locals.keep(head) .. 'return nil, ' .. tail, name)
    end
    at = at - 1
  end
  return nil
end

---@class ridge.repl.Parsed
---@field kind 'expression'|'statement'|'incomplete'|'error'
---@field chunk function|nil returns nil, then the values, for an expression; else its results
---@field message string|nil the compiler's message of 'error' and 'incomplete'

--- Compile a typed text.
--
-- An expression is compiled as `return nil, e`: `return e` alone would be a tail call, which takes
-- the typed line out of every traceback.
---@param source string what was typed
---@param name string the chunk's name in messages, as loadstring takes it
---@param is_cell? boolean statements may end in an expression, whose values are shown
---@return ridge.repl.Parsed parsed
function M.compile(source, name, is_cell)
  if #lexer.words(source) == 0 then
    local _, open = lexer.tokens(source)
    if not open then return { kind = 'statement', chunk = function() end } end
  end
  source = source:gsub('^(%s*)=([^=])', '%1 %2') -- `= 1 + 1`, as Lua's own prompt takes it
  local chunk, as_expression = loadstring('return nil, ' .. source, name)
  if chunk then return { kind = 'expression', chunk = chunk } end
  local message
  chunk, message = loadstring(locals.keep(source), name)
  -- `f`, and `(1)` in the next line, may be one thing or two: Lua refuses to say
  local is_told = chunk or not message:find('ambiguous syntax', 1, true)
  local last = is_cell and is_told and last_expression(source, name, chunk ~= nil)
  if last then return { kind = 'expression', chunk = last } end
  if chunk then return { kind = 'statement', chunk = chunk } end
  if unfinished(as_expression) or unfinished(message) then
    return { kind = 'incomplete', message = message }
  end
  return { kind = 'error', message = message .. of_shell(source) }
end

return M
