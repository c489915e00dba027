-- SPDX-License-Identifier: MIT
--- Lua's tokens, for what the prompt needs to know about a line: where completion stands, which
-- `local` is at the top level, whether a `;` ends it.
--
-- The lexer never fails: what it cannot read becomes an 'op' token of one character, and an
-- unfinished string or comment runs to the end and is named in `open`.

local M = {}

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
return then true until while]]):gmatch '%S+' do KEYWORDS[word] = true end
M.KEYWORDS = KEYWORDS

local PAIRS = { ['..'] = true, ['=='] = true, ['~='] = true, ['<='] = true, ['>='] = true,
  ['::'] = true }

--- The end of a long bracket that opens at a place with `level` equal signs; nil if it stays open.
local function long_end(source, from, level)
  local _, last = source:find(']' .. level .. ']', from, true)
  return last
end

local function read_comment(source, at)
  local level = source:match('^%-%-%[(=*)%[', at)
  if level then
    local last = long_end(source, at + 4 + #level, level)
    return last or #source, not last
  end
  return (source:find('\n', at, true) or #source + 1) - 1, false
end

local function read_string(source, at)
  local level = source:match('^%[(=*)%[', at)
  if level then
    local last = long_end(source, at + 2 + #level, level)
    return last or #source, not last
  end
  local quote, i = source:sub(at, at), at + 1
  while i <= #source do
    local c = source:sub(i, i)
    if c == '\\' then
      i = i + 1
    elseif c == quote then
      return i, false
    elseif c == '\n' then
      return i - 1, true
    end
    i = i + 1
  end
  return #source, true
end

local function read_number(source, at)
  local _, last = source:find('^0[xX]%x*%.?%x*[pP][+-]?%d+', at)
  if not last then _, last = source:find('^0[xX]%x*%.?%x*', at) end
  if not last then
    _, last = source:find('^%d*%.?%d*', at)
    local _, exponent = source:find('^[eE][+-]?%d+', last + 1)
    last = exponent or last
  end
  local _, suffix = source:find('^[uU]?[lL][lL]', last + 1)
  if not suffix then _, suffix = source:find('^[iI]', last + 1) end
  return suffix or last
end

local function read_operator(source, at)
  if source:sub(at, at + 2) == '...' then return at + 2 end
  return PAIRS[source:sub(at, at + 1)] and at + 1 or at
end

--- Kind and last position of the token at a place, and whether it stays open.
local function read(source, at)
  local _, last = source:find('^%s+', at)
  if last then return 'space', last end
  if source:find('^%-%-', at) then
    local ends, open = read_comment(source, at)
    return 'comment', ends, open
  end
  if source:find('^["\']', at) or source:find('^%[=*%[', at) then
    local ends, open = read_string(source, at)
    return 'string', ends, open
  end
  _, last = source:find('^[%a_\128-\255][%w_\128-\255]*', at)
  if last then return KEYWORDS[source:sub(at, last)] and 'keyword' or 'name', last end
  if source:find('^%.?%d', at) then return 'number', read_number(source, at) end
  return 'op', read_operator(source, at)
end

---@class ridge.repl.Token
---@field kind 'space'|'comment'|'string'|'name'|'keyword'|'number'|'op'
---@field text string what stands there
---@field first integer position of its first byte
---@field last integer position of its last byte

--- Split source into tokens; their texts joined are the source again.
---@param source string any text
---@return ridge.repl.Token[] tokens
---@return string|nil open 'string' or 'comment' if the last token was not finished
function M.tokens(source)
  local list, at, open = {}, 1, nil
  while at <= #source do
    local kind, last, unfinished = read(source, at)
    list[#list + 1] = { kind = kind, text = source:sub(at, last), first = at, last = last }
    open = unfinished and kind or nil
    at = last + 1
  end
  return list, open
end

--- The tokens that mean something: neither space nor comment.
---@param source string any text
---@return ridge.repl.Token[] tokens
function M.words(source)
  local list = {}
  for _, token in ipairs(M.tokens(source)) do
    if token.kind ~= 'space' and token.kind ~= 'comment' then list[#list + 1] = token end
  end
  return list
end

return M
