-- SPDX-License-Identifier: MIT
--- The reference of the prompt, and of the environment variables that are read.

local command = require 'ridge.repl.command'
local functions = require 'ridge.docs.functions'
local help = require 'ridge.repl.help'
local pages = require 'ridge.docs.pages'
local variables = require 'ridge.variables'

local M = {}

local function prompt()
  local keys = '## Keys and signs\n\n```\n' .. help.lookup('', {}) .. '\n```\n'
  local lines = { keys, '## Commands\n' }
  for _, name in ipairs(command.names()) do
    local usage, about = command.help(name):match '^([^\n]*)\n(.*)$'
    lines[#lines + 1] = ('### %%%s\n\n```\n%s\n%s\n```\n'):format(name, usage, about)
  end
  return pages.page('reference/prompt', '# The prompt\n\n`ridge` without arguments. It is Lua, and '
    .. 'what stands below.\n\n' .. table.concat(lines, '\n'))
end

local function environment()
  local lines, rows = {}, {}
  for i, each in ipairs((variables.all())) do rows[i] = { '`' .. each.name .. '`', each.does } end
  functions.table(lines, { 'variable', 'what' }, rows)
  return pages.page('reference/environment', '# Environment variables\n\nThose that ridge reads. '
    .. '`ridge doctor` says which of them are set.\n\n' .. table.concat(lines, '\n'))
end

--- The pages.
---@return ridge.docs.Page[] pages
function M.pages() return { prompt(), environment() } end

return M
