-- SPDX-License-Identifier: MIT
-- Prints which lines no test reached: luajit scripts/cover.lua ROOT GCOV-TEXT [LUA-HITS]
-- (scripts/cover.sh and scripts/gpu/cover.sh run the tests and call this).

local jutil = require "jit.util"
local root, gcov_path, hits_path = arg[1], arg[2], arg[3]

-- files[path][line] is true when reached, false when only reachable
local files, order = {}, {}
local function lines_of(path)
  if not files[path] then
    files[path] = {}
    order[#order + 1] = path
  end
  return files[path]
end

-- gcov prints "count: line:text"; a source compiled several times appears several times.
local function read_gcov(path)
  local lines
  for text in io.lines(path) do
    local source = text:match("^%s*%-:%s*0:Source:(.+)$")
    if source then
      lines = (source:find("^core/") or source:find("^lua/") or source:find("^gpu/")) and
        lines_of(source)
    elseif lines then
      local count, line = text:match("^%s*([%d#=]+)%*?:%s*(%d+):")
      if count then lines[tonumber(line)] = lines[tonumber(line)] or count:find("^%d") ~= nil end
    end
  end
end

-- Every line that has an instruction, in a function and those inside it.
local function active_lines(f, lines)
  local info = jutil.funcinfo(f)
  for pc = 1, info.bytecodes - 1 do
    local line = jutil.funcinfo(f, pc).currentline
    if line and line > 0 then lines[line] = lines[line] or false end
  end
  for i = -1, -info.gcconsts, -1 do
    local constant = jutil.funck(f, i)
    if type(constant) == "proto" then active_lines(constant, lines) end
  end
end

local function read_hits(path)
  local pipe = assert(io.popen("cd '" .. root .. "' && find lua/ridge -name '*.lua' | sort"))
  for source in pipe:lines() do
    local lines = lines_of(source)
    active_lines(assert(loadfile(root .. "/" .. source)), lines)
  end
  pipe:close()
  local file = io.open(path)
  if not file then return end
  for text in file:lines() do
    local source, line = text:match("^(.+):(%d+)$")
    local lines = source and files["lua/" .. source]
    if lines and lines[tonumber(line)] == false then lines[tonumber(line)] = true end
  end
  file:close()
end

-- "12-15 40": reachable lines between two that were missed join them.
local function ranges(lines)
  local numbers = {}
  for line in pairs(lines) do numbers[#numbers + 1] = line end
  table.sort(numbers)
  local words, first, last = {}, nil, nil
  local function close()
    if first then words[#words + 1] = first == last and first or first .. "-" .. last end
    first = nil
  end
  local reached = 0
  for _, line in ipairs(numbers) do
    if lines[line] then
      reached = reached + 1
      close()
    else
      first, last = first or line, line
    end
  end
  close()
  return table.concat(words, " "), reached, #numbers
end

read_gcov(gcov_path)
if hits_path then read_hits(hits_path) end
table.sort(order)
local totals = { C = { 0, 0 }, CUDA = { 0, 0 }, Lua = { 0, 0 } }
for _, path in ipairs(order) do
  local missed, reached, all = ranges(files[path])
  local total = totals[path:find("%.lua$") and "Lua" or path:find("%.cuh?$") and "CUDA" or "C"]
  total[1], total[2] = total[1] + reached, total[2] + all
  if reached < all then print(("%5.1f %%  %s: %s"):format(100 * reached / all, path, missed)) end
end
for _, language in ipairs { "C", "CUDA", "Lua" } do
  local reached, all = unpack(totals[language])
  if all > 0 then
    print(("%s: %d of %d lines reached, %.1f %%"):format(language, reached, all,
      100 * reached / all))
  end
end
