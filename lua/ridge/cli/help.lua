-- SPDX-License-Identifier: MIT
--- `ridge help [topic]`: commands, or the docstring of a name; --man is all of it as ridge(1).

local commands = require 'ridge.cli.commands'
local near = require 'ridge.near'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'help on a command or on a name: ridge help ridge.randn'
M.usage = 'ridge help [topic | --man]'

--- Print help.
---@param argv string[] the topic, or nothing
---@return integer status 1 if there is no help on it
function M.main(argv)
  local topic = table.concat(argv, ' ')
  if topic == '' or topic == '--help' or topic == '-h' then
    io.stdout:write(commands.help())
    return 0
  end
  if topic == '--man' then
    io.stdout:write(require('ridge.cli.manual').page(require('ridge').version(),
      os.date '!%Y-%m-%d'))
    return 0
  end
  topic = topic:gsub('^ridge ', '') -- as it is typed
  local command = commands.find(topic) or commands.find((topic:lower():gsub(' ', '-')))
  if command then
    io.stdout:write('usage: ', command.usage, '\n', command.summary, '\n')
    return 0
  end
  local text, reason = require('ridge.repl.help').lookup(topic, {})
  if not text then
    local list = near.names(topic, commands.names(), 2)
    if #list > 0 then reason = ('%s; commands: %s'):format(reason, table.concat(list, ', ')) end
    return stored.fail('help', reason)
  end
  io.stdout:write(text, '\n')
  return 0
end

return M
