-- SPDX-License-Identifier: MIT
-- What ranks print, for lines_spec: lines_child.lua WHAT [FILE]. They have nothing to do with each
-- other: only what the launcher makes of their lines is looked at.

local ffi = require 'ffi'

local RUN = {}

function RUN.many()
  for i = 1, 3000 do print('a', i, 'b', i * 2) end
  for i = 1, 5000 do print(i % 10) end -- the rank's number is longer than these
end

-- A megabyte without a newline, all bytes but that one, nothing, tabs, and no newline at the end.
function RUN.odd()
  local bytes = {}
  for i = 0, 255 do bytes[#bytes + 1] = i ~= 10 and string.char(i) or nil end
  io.stderr:write('E', ('e'):rep(2 ^ 20), '\n')
  io.write('long ', ('0123456789abcde\t'):rep(2 ^ 16), '\n', 'bytes ', table.concat(bytes), '\n',
    '\n', 'parts ')
  io.flush()
  io.write(('p'):rep(16384 * 2 - 6), '\n') -- as long as two messages
  io.stderr:write 'no end of err'
  io.write 'no end'
end

-- Killed while its last words lie in the pipe.
function RUN.killed(_, n)
  io.stdout:setvbuf 'full'
  ffi.cdef 'int kill(int, int); int getpid(void);'
  io.write(('0123456789abcde\n'):rep(tonumber(n or 3900)), 'cut')
  io.flush()
  ffi.C.kill(ffi.C.getpid(), 9)
end

-- More than fits anywhere on the way, and how far it is, in a file.
function RUN.much(path)
  local file = assert(io.open(path .. (os.getenv 'OMPI_COMM_WORLD_RANK' or '0'), 'wb'))
  for i = 1, 40000 do
    print(('%06d'):format(i), ('x'):rep(100))
    if i % 100 == 0 then
      file:seek 'set'
      file:write(i)
      file:flush()
    end
  end
end

function RUN.forever(path)
  local file = assert(io.open(path .. (os.getenv 'OMPI_COMM_WORLD_RANK' or '0'), 'wb'))
  file:write 'x'
  file:close()
  while true do print(('x'):rep(100)) end
end

-- What a rank has started prints by the same ways, also behind the rank's end.
function RUN.children()
  os.execute "echo child; echo child of err >&2; (sleep 1; echo later) &"
  print 'rank'
end

RUN[arg[1]](arg[2], arg[3])
