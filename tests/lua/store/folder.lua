-- SPDX-License-Identifier: MIT
-- Folders that tests make and take away, and programs they start.

local M = {}

--- A new empty folder below /tmp.
function M.new()
  local pipe = io.popen 'mktemp -d /tmp/ridge_test_XXXXXX'
  local path = pipe:read '*l'
  pipe:close()
  return path
end

--- The same in memory where there is such a place: a disk takes milliseconds for each of hundreds
--- of files.
function M.in_memory()
  local pipe = io.popen('mktemp -d /dev/shm/ridge_test_XXXXXX 2>/dev/null')
  local path = pipe:read '*l'
  pipe:close()
  return path or M.new()
end

--- Write a file.
function M.put(path, text)
  local f = assert(io.open(path, 'wb'))
  f:write(text)
  f:close()
end

--- What is in a file.
function M.get(path)
  local f = assert(io.open(path, 'rb'))
  local text = f:read '*a'
  f:close()
  return text
end

--- Take a folder away with all that is in it.
function M.remove(path)
  assert(path:find '^/tmp/ridge_test_%w+$' or path:find '^/dev/shm/ridge_test_%w+$')
  os.execute('rm -rf ' .. path)
end

--- Run a shell command; what it printed (both streams) and its exit status.
function M.run(command)
  local pipe = io.popen('{ ' .. command .. '\n} 2>&1; echo "status $?"')
  local text = pipe:read '*a'
  pipe:close()
  local status = tonumber(text:match 'status (%d+)\n$')
  return text:gsub('status %d+\n$', ''), status
end

--- What `ls -A` of a folder says, joined by spaces.
function M.list(path)
  local pipe = io.popen('ls -A ' .. path)
  local text = pipe:read '*a'
  pipe:close()
  return (text:gsub('\n', ' '):gsub(' $', ''))
end

return M
