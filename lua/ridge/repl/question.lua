-- SPDX-License-Identifier: MIT
--- Typed lines that are no Lua and no command: `?name`, `name?`, `??name`, and the words help, exit
--- and quit that other prompts know.

local help = require 'ridge.repl.help'
local source = require 'ridge.repl.source'

local M = {}

local WORDS = { help = true, exit = true, quit = true }

--- A word typed alone: help, exit, quit; nil where it is a variable here.
---@param text string what was typed
---@param env table the session's environment
---@return string|nil word
function M.word(text, env)
  local name = text:match '^%s*(%l+)%s*%(?%s*%)?%s*;?%s*$'
  return WORDS[name] and rawget(env, name) == nil and rawget(_G, name) == nil and name or nil
end

--- `?name` and `name?`: help on a name; `??name`: its source. nil if the line is no question.
---@param text string what was typed
---@param env table the session's environment
---@return string|nil answer
---@return string|nil reason why there is none
function M.answer(text, env)
  local topic = text:match '^%s*%?%?+%s*(.-)%s*$'
  if topic and topic ~= '' then return source.lookup(topic, env) end
  topic = text:match '^%s*%?+(.*)$' or text:match '^%s*([%a_][%w_.:]*)%s*%?%s*$'
    or text:match '^%s*(%%%w+)%s*%?%s*$'
  if topic then return help.lookup(topic, env) end
  return nil
end

return M
