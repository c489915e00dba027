-- SPDX-License-Identifier: MIT
--- Top-level `local` at the prompt: each line is a chunk of its own, so a local would be gone with
--- its line. It is rewritten to a variable of the session; inside any block or function it stays.
--
-- Only `local` itself is blanked (by spaces, so that lines and columns stay) and `local a, b`
-- without a value becomes `a, b = nil`.

local lexer = require 'ridge.repl.lexer'

local M = {}

local OPENS = { ['function'] = true, ['do'] = true, ['then'] = true, ['repeat'] = true,
  ['('] = true, ['{'] = true, ['['] = true }
local CLOSES = { ['end'] = true, ['until'] = true, ['elseif'] = true,
  [')'] = true, ['}'] = true, [']'] = true }

--- The next token that means something behind position i of the list.
local function following(tokens, i)
  repeat i = i + 1 until not tokens[i]
    or (tokens[i].kind ~= 'space' and tokens[i].kind ~= 'comment')
  return i, tokens[i]
end

--- Blank the `local` at i; give names without a value one.
local function rewrite(tokens, i)
  local j, token = following(tokens, i)
  if not token then return end
  if token.text ~= 'function' then
    local last
    while token and token.kind == 'name' do
      last = j
      j, token = following(tokens, j)
      if not token or token.text ~= ',' then break end
      j, token = following(tokens, j)
    end
    if not last then return end
    if not token or token.text ~= '=' then
      tokens[last].text = tokens[last].text .. ' = nil'
    end
  end
  tokens[i].text = '     '
end

--- Rewrite every top-level `local` of a chunk to a variable of its environment.
---@param source string a chunk of Lua
---@return string chunk the same with top-level locals kept as globals
function M.keep(source)
  local tokens = lexer.tokens(source)
  local depth = 0
  for i, token in ipairs(tokens) do
    if token.kind == 'keyword' or token.kind == 'op' then
      if OPENS[token.text] then depth = depth + 1 end
      if CLOSES[token.text] then depth = depth - 1 end
      if token.text == 'local' and depth == 0 then rewrite(tokens, i) end
    end
  end
  local texts = {}
  for i, token in ipairs(tokens) do texts[i] = token.text end
  return table.concat(texts)
end

return M
