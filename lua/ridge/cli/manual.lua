-- SPDX-License-Identifier: MIT
--- The manual page ridge(1), in the man macros, from the tables that read the arguments.

local described = require 'ridge.cli.described'

local M = {}

-- Text of a line: a dash is what was typed, a period or quote in front is no request.
local function escaped(text)
  text = text:gsub('\\', '\\e'):gsub('%-', '\\-')
  return (text:gsub("^[.']", '\\&%0'):gsub("\n([.'])", '\n\\&%1'))
end

-- Lines as they stand.
local function literal(text) return '.nf\n' .. escaped(text) .. '\n.fi' end

local function option_of(option)
  local left = ('\\fB%s\\fR'):format(escaped(option.flag))
  if option.short then left = ('\\fB%s\\fR, %s'):format(escaped(option.short), left) end
  if option.takes then left = left .. (' \\fI%s\\fR'):format(escaped(option.takes)) end
  local facts = {}
  if option.choices then facts[1] = table.concat(option.choices, ' | ') end
  if option.default then facts[#facts + 1] = 'default ' .. option.default end
  local right = option.does
  if #facts > 0 then right = ('%s (%s)'):format(right, table.concat(facts, '; ')) end
  return ('.TP\n%s\n%s'):format(left, right == '' and '\\&' or escaped(right))
end

local function options_of(lines, list)
  for _, option in ipairs(list) do lines[#lines + 1] = option_of(option) end
end

--- The page.
---@param version string as ridge.version() gives it
---@param date string 2026-11-26
---@return string text roff
function M.page(version, date)
  local lines = { ('.TH RIDGE 1 "%s" "ridge %s"'):format(date, escaped(version)),
    '.SH NAME', 'ridge \\- find where neural networks run fast, and tell the truth about it',
    '.SH SYNOPSIS', literal(table.concat({ 'ridge [flags]', 'ridge [flags] file.lua [args]',
      'ridge [flags] -e CODE', 'ridge [flags] -i [file.lua]', 'ridge [flags] -',
      'ridge [flags] COMMAND [args]' }, '\n')) }
  lines[#lines + 1] = '.SH DESCRIPTION\nWithout arguments it is a prompt for Lua. A file is run, '
    .. '\\fB\\-e\\fR runs code and prints its values, \\fB\\-i\\fR runs a file and goes on at the '
    .. 'prompt, \\fB\\-\\fR runs standard input. Results go into an SQLite database.'
  lines[#lines + 1] = '.SH FLAGS'
  options_of(lines, described.flags())
  lines[#lines + 1] = '.SH COMMANDS'
  for _, command in ipairs(described.all()) do
    lines[#lines + 1] = ('.SS "%s"'):format(escaped(command.name))
    lines[#lines + 1] = literal((command.usage:gsub('\n +', '\n'))) .. '\n.PP'
    lines[#lines + 1] = literal(command.about or command.summary)
    if command.name ~= 'help' then options_of(lines, command.options) end
  end
  lines[#lines + 1] = '.SH EXIT STATUS'
  for _, each in ipairs(require 'ridge.cli.statuses') do
    lines[#lines + 1] = option_of { flag = tostring(each[1]), does = each[2] }
  end
  lines[#lines + 1] = '.PP\nCommands that say more name it above.'
  lines[#lines + 1] = '.SH ENVIRONMENT'
  for _, variable in ipairs(require('ridge.variables').all()) do
    lines[#lines + 1] = option_of { flag = variable.name, does = variable.does }
  end
  lines[#lines + 1] = '.SH FILES\n.TP\nresults/ridge.db\nwhere results go, unless RIDGE_DB or '
    .. '\\fB\\-\\-db\\fR says otherwise'
  return table.concat(lines, '\n') .. '\n'
end

return M
