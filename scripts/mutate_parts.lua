-- SPDX-License-Identifier: MIT
-- mutate_parts: a helper of busted, for the specs of the operations in the copy that counts.  What
-- was run between two tests is that of the operation that the test's description names; so one
-- process says for each operation what it reaches, in a file of its own in $RIDGE_PARTS.

local ffi = require "ffi"
local busted = require "busted"

ffi.cdef [[
void *rg_mutate_mmap(void *, size_t, int, int, int, long) __asm__("mmap");
int rg_mutate_open(const char *, int, ...) __asm__("open");
int rg_mutate_close(int) __asm__("close");
]]

local hits, folder = os.getenv "RIDGE_COVER", os.getenv "RIDGE_PARTS"
local parts, images = {}, {}

local function clock()
  local file = assert(io.open "/proc/uptime")
  local seconds = file:read "*n"
  file:close()
  return seconds
end

-- What is mapped, looked for each time: libraries are loaded late.
local function mapped()
  local pipe = assert(io.popen("ls " .. hits .. ".* 2>/dev/null"))
  for path in pipe:lines() do
    if not images[path] then
      local file = assert(io.open(path, "rb"))
      local size = file:seek "end"
      file:close()
      local fd = ffi.C.rg_mutate_open(path, 2)
      local map = ffi.C.rg_mutate_mmap(nil, size, 3, 1, fd, 0)
      ffi.C.rg_mutate_close(fd)
      images[path] = { bytes = ffi.cast("uint8_t *", map), size = size,
        name = path:sub(#hits + 2) }
    end
  end
  pipe:close()
end

-- Take what was noted since the last time, into a set, and start again.
local function take(set)
  for _, image in pairs(images) do
    local bytes = image.bytes
    local words = ffi.cast("uint64_t *", bytes)
    for i = 0, math.floor(image.size / 8) - 1 do
      if words[i] ~= 0 then
        for k = 8 * i, 8 * i + 7 do
          if bytes[k] ~= 0 then
            if set then set[image.name .. " " .. k] = true end
            bytes[k] = 0
          end
        end
      end
    end
  end
  local file = io.open(hits)
  if file then
    for line in file:lines() do
      if set then set[line] = true end
    end
    file:close()
    os.remove(hits)
  end
  for _, blocks in pairs(package.loaded["mutate.blocks"] or {}) do
    for number in pairs(blocks) do blocks[number] = nil end
  end
end

local function part_of(element)
  local words, parent = { element.name }, busted.parent(element)
  while parent and parent.name and parent.descriptor ~= "file" do
    table.insert(words, 1, parent.name)
    parent = busted.parent(parent)
  end
  local text = table.concat(words, " ")
  return text:match "^the gradient of ([%w_]+)" or text:match "^([%w_]+)"
end

local began
busted.subscribe({ "test", "start" }, function()
  mapped()
  take(nil)
  began = clock()
  return nil, true
end)

busted.subscribe({ "test", "end" }, function(element, _, status)
  local name = part_of(element) or "rest"
  local part = parts[name] or { set = {}, seconds = 0, failed = 0 }
  parts[name] = part
  mapped()
  take(part.set)
  part.seconds = part.seconds + clock() - began
  if status ~= "success" and status ~= "pending" then part.failed = 1 end
  return nil, true
end)

busted.subscribe({ "exit" }, function()
  for name, part in pairs(parts) do
    local file = assert(io.open(folder .. "/" .. name, "w"))
    file:write(("%d %.2f\n"):format(part.failed, part.seconds))
    for line in pairs(part.set) do file:write(line, "\n") end
    file:close()
  end
  return nil, true
end)
