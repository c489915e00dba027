-- SPDX-License-Identifier: MIT
--- The reference of the command line, from the tables that the commands read their arguments with.

local described = require 'ridge.cli.described'
local functions = require 'ridge.docs.functions'
local host = require 'ridge.host'
local pages = require 'ridge.docs.pages'
local recipe = require 'ridge.cli.recipe'

local M = {}

local function option(o)
  local left = '`' .. o.flag .. (o.takes and ' ' .. o.takes or '') .. '`'
  if o.short then left = '`' .. o.short .. '`, ' .. left end
  local facts = {}
  if o.choices then facts[1] = table.concat(o.choices, ', ') end
  if o.default then facts[#facts + 1] = 'default ' .. o.default end
  return { left, #facts > 0 and ('%s (%s)'):format(o.does, table.concat(facts, '; ')) or o.does }
end

local function options(lines, list)
  local rows = {}
  for i, each in ipairs(list) do rows[i] = option(each) end
  functions.table(lines, { 'option', 'what' }, rows)
end

local function commands()
  local lines = { '## Flags before a file or a command\n' }
  options(lines, described.flags())
  for _, command in ipairs(described.all()) do
    lines[#lines + 1] = '## ridge ' .. command.name .. '\n'
    lines[#lines + 1] = '```\n' .. command.usage .. '\n\n' .. (command.about or command.summary)
      :gsub('%s+$', '') .. '\n```\n'
    if command.name ~= 'help' then options(lines, command.options) end
  end
  return pages.page('reference/commands', '# Commands\n\nEach command and its options; '
    .. '`ridge COMMAND --help` says the same.\n\n' .. table.concat(lines, '\n'))
end

local function statuses()
  local lines, rows = {}, {}
  for i, each in ipairs(require 'ridge.cli.statuses') do
    rows[i] = { tostring(each[1]), each[2] }
  end
  functions.table(lines, { 'status', 'what' }, rows)
  rows = {}
  for _, command in ipairs(described.all()) do
    local said = (command.about or ''):gsub('%s+', ' '):match 'Exit status: (.-%.) '
      or (command.about or ''):gsub('%s+', ' '):match 'Exit status: (.*)$'
    if said then rows[#rows + 1] = { '`ridge ' .. command.name .. '`', said } end
  end
  lines[#lines + 1] = '## Commands that say more\n'
  functions.table(lines, { 'command', 'statuses' }, rows)
  return pages.page('reference/exit-status', '# Exit statuses\n\nWhat the shell sees when `ridge` '
    .. 'ends.\n\n' .. table.concat(lines, '\n'))
end

local function recipes()
  local lines, rows = {}, {}
  for _, path in ipairs(host.files()) do
    local name = path:match '^recipes/([%w_]+)%.lua$'
    if name then
      rows[#rows + 1] = { '`' .. name .. '`', recipe.about { source = host.source(path) } }
    end
  end
  functions.table(lines, { 'recipe', 'what it does' }, rows)
  return pages.page('reference/recipes', '# Recipes\n\nExperiments that are in the program: '
    .. '`ridge run NAME`, `ridge run NAME --help`.\n\n' .. table.concat(lines, '\n'))
end

--- The pages.
---@return ridge.docs.Page[] pages
function M.pages() return { commands(), statuses(), recipes() } end

return M
