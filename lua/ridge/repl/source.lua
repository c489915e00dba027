-- SPDX-License-Identifier: MIT
--- `??name`: the source of a function, wherever it was written: in ridge, in a file, at the prompt.

local colour = require 'ridge.show.colour'
local guard = require 'ridge.guard'
local help = require 'ridge.repl.help'
local report = require 'ridge.repl.report'
local sources = require 'ridge.repl.sources'
local types = require 'ridge.types'

local M = {}

local function lines_of(text)
  local lines = {}
  for line in (text .. '\n'):gmatch '(.-)\r?\n' do lines[#lines + 1] = line end
  return lines
end

--- The lines from one to another, with the comment right above them.
local function cut(text, first, last)
  local lines = lines_of(text)
  while first > 1 and lines[first - 1] and lines[first - 1]:find '^%s*%-%-' do first = first - 1 end
  return table.concat(lines, '\n', first, math.min(last, #lines))
end

local function file_text(path)
  local file = io.open(path, 'rb')
  local text = file and file:read '*a'
  if file then file:close() end
  return text
end

--- The text of a chunk by what debug.getinfo calls it, and what to call it for people.
local function text_of(chunk)
  local own = sources.path_of(chunk)
  local text = own and sources.text(own)
  if text then return text, own end
  if chunk:find '^=' then return report.typed(chunk:sub(2)), chunk:sub(2) end
  return chunk:find '^@' and file_text(chunk:sub(2)) or nil, chunk:sub(2)
end

local function shown(title, place, first, body)
  return ('%s  %s\n%s'):format(colour.paint('bold', title),
    colour.paint('dim', ('%s:%d'):format(place, first)), body)
end

local function of_function(title, f)
  local info = debug.getinfo(guard.original(f), 'S')
  if info.what == 'C' then
    return nil, ('%s is a function of Lua itself or of a C library: it has no Lua source')
      :format(title)
  end
  local text, place = text_of(info.source)
  if not text then return nil, ('the source of %s is not here: %s'):format(title, place) end
  return shown(title, place, info.linedefined, cut(text, info.linedefined, info.lastlinedefined))
end

--- A function that is only known by its docstring: up to the `end` at its own depth.
local function of_entry(entry)
  local text = sources.text(entry.path)
  local lines = lines_of(text)
  local indent = lines[entry.line]:match '^%s*'
  local last = entry.line
  while lines[last] and not lines[last]:find('^' .. indent .. 'end') do last = last + 1 end
  return shown(entry.title, entry.path, entry.line, cut(text, entry.line, last))
end

--- What a name of a member of one of ridge's own types is: x.sum, net.forward.
local function member(topic, env)
  local owner, name = topic:match '^(.+)[.:]([%w_]+)$'
  local value = owner and help.resolve(owner, env)
  if value == nil or not types.of(value) then return nil end
  local ok, found = pcall(function() return value[name] end) -- ridge's own __index
  return ok and found or nil
end

--- The source of what a name means.
---@param topic string a name, dotted or not
---@param env table where names are looked up first
---@return string|nil text
---@return string|nil reason why there is none
function M.lookup(topic, env)
  local value = help.resolve(topic, env)
  if value == nil then value = member(topic, env) end
  if type(value) == 'table' and type(rawget(value, 'init')) == 'function' then
    value = rawget(value, 'init') -- of a class, what makes it
  end
  if type(value) == 'function' then return of_function(topic, value) end
  local entry = help.place_of(topic)
  if entry then return of_entry(entry) end
  if value ~= nil then return nil, ('%s is a %s, it has no source'):format(topic, type(value)) end
  return nil, select(2, help.lookup(topic, env)) or ("there is no '%s'"):format(topic)
end

return M
