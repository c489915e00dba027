-- SPDX-License-Identifier: MIT
--- %set, %seed and %device: what is in force in this session.

local blame = require 'ridge.blame'
local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local near = require 'ridge.near'

local function host_settings()
  local host = package.loaded['ridge.host']
  return host and host.settings or {}
end

local function one_of(name, value, choices)
  for _, choice in ipairs(choices) do if choice == value then return value end end
  blame.raise(("%%set %s: '%s' is none of %s"):format(name, value, table.concat(choices, ', ')))
end

local function backend() return require 'ridge.backend' end

--- Each setting: what it is, how it is read, how it is set from a word.
local SETTINGS = {
  threads = { 'compute threads; 0: all processors',
    function() return backend().threads() end,
    function(word)
      local n = tonumber(word)
      if not n then blame.raise(("%%set threads: '%s' is no number"):format(word)) end
      backend().set_threads(n)
    end },
  isa = { 'instruction set of the kernels: base, avx2, avx512, avx512_bf16, amx',
    function() return backend().now().isa end,
    function(word) backend().set_isa(word) end },
  gemm = { 'who computes products: auto, onednn, openblas, own',
    function() return backend().now().gemm end,
    function(word) backend().set_gemm(word) end },
  trace = { 'how errors are shown: short, full',
    function() return host_settings().trace or os.getenv 'RIDGE_TRACE' or 'short' end,
    function(word) host_settings().trace = one_of('trace', word, { 'short', 'full' }) end },
  colour = { 'on, off',
    function() return colour.enabled and 'on' or 'off' end,
    function(word) colour.enabled = one_of('colour', word, { 'on', 'off' }) == 'on' end },
  jit = { 'compile Lua: on, off',
    function() return require('jit').status() and 'on' or 'off' end,
    function(word) require('jit')[one_of('jit', word, { 'on', 'off' })]() end },
}

local function names()
  local list = {}
  for name in pairs(SETTINGS) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local function set(session, request)
  local name, word = request.rest:match '^(%S*)%s*=?%s*(.-)$'
  if name == '' then
    local rows = {}
    for i, each in ipairs(names()) do
      rows[i] = { each, tostring(SETTINGS[each][2]()), SETTINGS[each][1] }
    end
    session.write(columns.text({ 'setting', 'is', '' }, rows) .. '\n')
    return
  end
  local setting = SETTINGS[name]
  if not setting then
    blame.raise(("%%set: there is no setting '%s'%s; known: %s"):format(name,
      near.hint(name, names()), table.concat(names(), ', ')))
  end
  if word ~= '' then setting[3](word) end
  session.write(('%s is %s\n'):format(name, tostring(setting[2]())))
end

local function seed(session, request)
  local ridge = require 'ridge'
  local n = tonumber(request.rest)
  if request.rest ~= '' and not n then
    blame.raise(("%%seed: '%s' is no number"):format(request.rest))
  end
  session.write(('seed %d\n'):format(ridge.seed(n)))
end

local function device(session)
  session.write(backend().describe() .. '\n')
end

return {
  set = {
    usage = '%set [NAME [VALUE]]', takes = 'words', run = set,
    about = 'show settings, or change one: ' .. table.concat(names(), ', '),
  },
  seed = {
    usage = '%seed [N]', takes = 'words', run = seed,
    about = 'the seed of random numbers, or a new one',
  },
  device = {
    usage = '%device', takes = 'words', run = device,
    about = 'what ridge computes on',
  },
}
