-- SPDX-License-Identifier: MIT
--- Whether a text that is typed line by line has surely not ended, from what was read of it so far:
--- each line is looked at once, so that a pasted text of any length costs what its bytes cost.
--
-- Surely: a bracket, block, long string or comment is open, or the last token needs another one
-- behind it. Anything else is for the compiler to say.

local lexer = require 'ridge.repl.lexer'

local M = {}
local Unfinished = {}
Unfinished.__index = Unfinished

local OPENS = { ['function'] = 1, ['do'] = 1, ['then'] = 1, ['repeat'] = 1, ['('] = 1, ['{'] = 1,
  ['['] = 1, ['end'] = -1, ['until'] = -1, ['elseif'] = -1, [')'] = -1, ['}'] = -1, [']'] = -1 }

-- Between these and their `then` or `do` stands a condition.
local HEADS = { ['if'] = 1, ['elseif'] = 1, ['while'] = 1, ['for'] = 1, ['then'] = -1 }

-- Behind these something has to follow.
local LEADS = {}
for token in ([[+ - * / % ^ # .. == ~= < <= > >= = , . : and or not local function if elseif while
for in repeat until goto]]):gmatch '%S+' do LEADS[token] = true end

-- Bytes up to which the compiler is asked at every line, so that a mistake is told there;
-- beyond them it is asked whenever the text has grown by so much.
local SHORT, GROWN = 4096, 1.25

local function count(self, token)
  if token.kind == 'space' or token.kind == 'comment' then return end
  self.last = token.text
  if token.kind ~= 'op' and token.kind ~= 'keyword' then return end
  if token.text == 'do' and self.heads > 0 then
    self.heads = self.heads - 1 -- the `do` of a loop
  else
    self.heads = self.heads + (HEADS[token.text] or 0)
  end
  self.depth = self.depth + (OPENS[token.text] or 0)
end

local function look(self, line)
  if self.open then
    self.open.lines[#self.open.lines + 1] = line
    if not line:find(self.open.ends, 1, true) then return end
    line = table.concat(self.open.lines, '\n')
  end
  self.open = nil
  local tokens, open = lexer.tokens(line)
  local tail = open and tokens[#tokens]
  local level = tail and tail.text:match '^%-?%-?%[(=*)%['
  if level then -- it is read again, as a whole, in the line where it may end
    self.open = { lines = { tail.text }, ends = ']' .. level .. ']' }
    tokens[#tokens] = nil
  end
  for _, token in ipairs(tokens) do count(self, token) end
end

local function sure(self)
  return self.open ~= nil or self.depth > 0 or self.heads > 0 or LEADS[self.last or ''] == true
end

--- Begin a text.
---@param text string its first line or lines, which the compiler found unfinished
---@return table unfinished
function M.new(text)
  local self = setmetatable({ lines = { text }, size = #text, due = 0, depth = 0, heads = 0 },
    Unfinished)
  look(self, text)
  return self
end

--- All of it.
---@return string text
function Unfinished:text() return table.concat(self.lines, '\n') end

--- Take the next line.
---@param line string
---@return string|nil text all of it, when the compiler should be asked; nil: it has not ended
function Unfinished:add(line)
  self.lines[#self.lines + 1], self.size = line, self.size + #line + 1
  look(self, line)
  if self.size > SHORT and self.size < self.due and sure(self) then return nil end
  self.due = self.size * GROWN
  return self:text()
end

return M
