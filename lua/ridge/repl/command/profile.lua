-- SPDX-License-Identifier: MIT
--- %prof and %trace: where the time goes, and where the compiler of Lua gives up.

local columns = require 'ridge.show.columns'

local function prof(session, request)
  local p = require('ridge.profile').profile(function() session:values(request.parsed) end,
    { lines = true })
  session.write(p:text() .. '\n')
end

--- LuaJIT's words for why a trace was given up, with what it was about filled in.
local function reason_of(code, about)
  local ok, messages = pcall(function() return require('jit.vmdef').traceerr end)
  local text = ok and messages[code] or 'reason ' .. tostring(code)
  if type(about) == 'function' then
    local info = debug.getinfo(about, 'S')
    about = info.what == 'C' and 'a C function' or info.short_src .. ':' .. info.linedefined
  end
  return (text:gsub('%%[sdp]', (tostring(about):gsub('%%', '%%%%'))))
end

local function place_of(f, pc)
  local info = require('jit.util').funcinfo(f, pc)
  return info.loc or 'C'
end

local function trace(session, request)
  local given_up, made = {}, 0
  local function note(what, _, f, pc, code, about)
    if what == 'stop' then made = made + 1 end
    if what ~= 'abort' then return end
    local key = place_of(f, pc) .. '  ' .. reason_of(code, about)
    given_up[key] = (given_up[key] or 0) + 1
  end
  local jit = require 'jit'
  jit.attach(note, 'trace')
  local ok, failure = pcall(session.values, session, request.parsed)
  jit.attach(note)
  if not ok then error(failure, 0) end
  local rows = {}
  for key, times in pairs(given_up) do rows[#rows + 1] = { times, key } end
  table.sort(rows, function(a, b) return a[1] > b[1] or (a[1] == b[1] and a[2] < b[2]) end)
  session.write(('%s compiled, %d given up\n'):format(made == 1 and '1 trace was'
    or made .. ' traces were', #rows))
  if #rows > 0 then session.write(columns.text({ 'times', 'where and why' }, rows) .. '\n') end
end

return {
  prof = {
    usage = '%prof CODE', takes = 'code', run = prof,
    about = 'run CODE once: where its time goes\n'
      .. 'Operations are timed one by one, lines of Lua sampled a hundred times a second.',
  },
  trace = {
    usage = '%trace CODE', takes = 'code', run = trace,
    about = 'run CODE once: where LuaJIT gave up compiling',
  },
}
