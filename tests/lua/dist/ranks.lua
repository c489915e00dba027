-- SPDX-License-Identifier: MIT
--- For tests with several processes: start a child on ranks, and read what its lines say.

local M = {}

local function there(path)
  local file = io.open(path, 'rb')
  if file then file:close() end
  return file ~= nil
end

--- What a command writes, and its status.
function M.output(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  local body, status = text:match '^(.*)status (%d+)\n$'
  return body, tonumber(status)
end

--- What the ranks of a child write, and the status.
function M.launch(n, child, ...)
  return M.output(('./ridge launch -n %d %s %s'):format(n, child, table.concat({ ... }, ' ')))
end

--- A test that needs several processes; pending where there can be none.
function M.several(busted, name, f)
  if not there 'build/libridge_mpi.so' then
    busted.pending(name .. ' (no libopenmpi-dev when ridge was built: scripts/deps mpi)',
      function() end)
  elseif not M.output('command -v mpirun'):find '/' then
    busted.pending(name .. ' (no mpirun on the PATH: scripts/deps mpi)', function() end)
  else
    busted.it(name, f)
  end
end

--- How many processes run what stands behind `ridge`; a launcher's own is not one. (Of a sanitizer
--- that is preloaded ps dies or waits for ever.)
function M.left(words)
  return tonumber((M.output(("LD_PRELOAD= ps -eo args | grep -c '^[^ ]*ridge %s'"):format(words))))
end

--- How many lines have a pattern.
function M.lines(text, pattern)
  local n = 0
  for line in text:gmatch '[^\n]+' do
    if line:find(pattern) then n = n + 1 end
  end
  return n
end

return M
