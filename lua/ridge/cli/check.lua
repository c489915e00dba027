-- SPDX-License-Identifier: MIT
--- `ridge check`: names in a recipe that are not there, before it has run for hours.

local near = require 'ridge.near'
local plain = require 'ridge.plain'
local scopes = require 'ridge.repl.scopes'
local sources = require 'ridge.repl.sources'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'names in a file that nothing declares, without running it: ridge check widths.lua'
M.usage = 'ridge check FILE ...'

local SPEC = { about = [[
Every branch is looked at, also those that a run reaches after hours: variables that are declared
nowhere, assignments to such, and names and modules of ridge that are not there (nn.Liner,
nn['Liner'], what is required), with the nearest one that is. Names that are computed are not
looked at. Nothing is run. Status 1 where something is wrong.

    ridge check widths.lua]],
  rest = 'FILE ...' }

-- What is behind a path of ridge, and may be asked for names: namespaces and modules, no classes.
local function namespace_of(path)
  local value = require 'ridge'
  for name in path:gmatch '%.([^.]+)' do
    local ok, found = pcall(function() return value[name] end)
    if not ok then return nil end
    value = found
    if type(value) ~= 'table' then return nil end
    local meta = debug.getmetatable(value)
    if rawget(value, '__index') ~= nil or meta and not rawget(meta, 'late') then return nil end
  end
  return value
end

-- What to say of a field that a namespace does not have; nil where it has it.
local function missing(owner, field)
  local value = namespace_of(owner)
  if not value then return nil end
  local ok, found = pcall(function() return value[field] end)
  if ok and found ~= nil then return nil end
  if not ok then return tostring(type(found) == 'table' and found.message or found) end
  local names = {}
  for name in next, value do names[#names + 1] = tostring(name) end
  return ('%s has no %s%s'):format(owner, field, near.hint(field, names))
end

local modules -- of ridge, by name

-- The part of ridge that a module is, and what to say of a module that is not there. Somebody's own
-- may lie beside the file, as a run looks there.
local function module(name, folder)
  if not modules then
    modules = {}
    for _, path in ipairs(sources.files()) do modules[#modules + 1] = sources.module_of(path) end
    for known in next, package.loaded do modules[#modules + 1] = known end
    for known in next, package.preload do modules[#modules + 1] = known end
    for _, known in ipairs(modules) do modules[known] = true end
  end
  if modules[name] then
    local value = namespace_of(name)
    return value and value == package.loaded[name] and name or nil
  end
  local where = ('%s/?.lua;%s/?/init.lua;%s'):format(folder, folder, package.path)
  if package.searchpath(name, where) or package.searchpath(name, package.cpath) then return nil end
  local known = {}
  for _, each in ipairs(modules) do known[#known + 1] = each:match '^ridge%.(.*)' end
  local hint = near.hint(name:sub(#'ridge.' + 1), known)
  return nil, ("there is no module '%s'%s"):format(name, (hint:gsub("'(%S+)'", "'ridge.%1'")))
end

local LONGEST = 2 ^ 26 -- bytes: a device may have no end

local function text_of(path)
  local file, why = io.open(path, 'rb')
  if not file then return nil, why end
  local text = file:read(LONGEST + 1) or file:seek 'end' == 0 and ''
  file:close()
  if text and #text > LONGEST then
    return nil, ('%s has more than %d bytes'):format(path, LONGEST)
  end
  return text, path .. ' is no file'
end

-- What a file sees when it is run.
local function globals()
  local all = { arg = {} }
  for name, value in next, _G do all[name] = value end
  return all
end

-- What is wrong with a file, a line each; nil and why where it cannot be read.
local function wrong_with(path)
  local text, why = text_of(path)
  if not text then return nil, why end
  local plainly = text:gsub('^\239\187\191', ''):gsub('^#[^\n]*', '')
  local chunk, message = loadstring(plainly, '@' .. path)
  if not chunk then return { message } end
  local lines = {}
  local folder = path:match '^(.*)/' or path:find '^/' and '/' or '.'
  local function its(name) return module(name, folder) end
  for i, each in ipairs(scopes.check(text, globals(), missing, its)) do
    lines[i] = ('%s:%d: %s'):format(path, each.line, each.message)
  end
  return lines
end

--- Check files.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('check', SPEC, argv, nil, function(_, rest)
    if #rest == 0 then return stored.fail('check', 'a file is missing') end
    local status = 0
    for _, path in ipairs(rest) do
      local lines, why = wrong_with(path)
      for _, line in ipairs(lines or {}) do plain.print(line, '\n') end
      if not lines then
        status = stored.fail('check', why) -- the others are looked at nevertheless
      elseif #lines == 0 then
        plain.print(path, ': every name is there\n')
      else
        status = 1
      end
    end
    return status
  end)
end

return M
