-- SPDX-License-Identifier: MIT
--- A misspelt field of a plain table is nil to Lua, and calling it an error without a hint: which
--- name was meant is found in the typed line and in what stands before the dot.

local complete = require 'ridge.repl.complete'
local help = require 'ridge.repl.help'
local near = require 'ridge.near'

local M = {}

local SHAPES = {
  "attempt to call field '([%w_]+)' %(a nil value%)",
  "attempt to call method '([%w_]+)' %(a nil value%)",
  "attempt to index field '([%w_]+)' %(a nil value%)",
}

--- What to put behind Lua's message; '' where there is nothing to say.
---@param message string what Lua said
---@param line string|nil the line where it happened
---@param env table the session's environment
---@return string hint
function M.hint(message, line, env)
  local name
  for _, shape in ipairs(SHAPES) do name = name or message:match(shape) end
  if not name or not line then return '' end
  local owner = line:match('([%a_][%w_.]*)%s*[.:]%s*' .. name .. '%f[^%w_]')
  local value = owner and help.resolve(owner, env)
  if value == nil then return '' end
  local names = {}
  for i, item in ipairs(complete.fields(value)) do names[i] = item.name end
  return near.hint(name, names)
end

return M
