-- SPDX-License-Identifier: MIT
-- mutate_map: the tests as units that can be run alone, and which lines each of them reaches.
--
-- A unit is { name, command, folder }: a test program, a file of specs, or what the op suite says
-- of one operation.  In a copy of the tree gcov counts the lines of C, and each block of Lua notes
-- that it was entered (a hook for lines would take a hundred times as long).  This is done once;
-- what a unit reached is kept in a file of its own, which begins with its exit code and seconds.

local ffi = require "ffi"

ffi.cdef [[
typedef struct { long s, us; } rg_mutate_time;
int gettimeofday(rg_mutate_time *, void *);
]]

local M = {}

--- Seconds of the wall clock.
function M.now()
  local t = ffi.new "rg_mutate_time"
  ffi.C.gettimeofday(t, nil)
  return tonumber(t.s) + tonumber(t.us) * 1e-6
end

--- A text as one word of the shell.
function M.quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Run a command; its exit code.
function M.run(command)
  local status = os.execute(command)
  if type(status) == "boolean" then return status and 0 or 1 end
  return status > 255 and math.floor(status / 256) or status
end

--- The whole of a file; nil where there is none.
function M.read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "*a"
  file:close()
  return text
end

--- Write a file.
function M.write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  assert(file:close())
end

--- The lines a command prints.
function M.lines(command)
  local list, pipe = {}, assert(io.popen(command))
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local BUSTED = "busted --lua=luajit -o TAP --no-keep-going "
local SIMULATED = "env RIDGE_GPU=build/libridge_gpusim.so RIDGE_TEST_DEVICE=1 RG_SIM_ORDER=rev "
  .. "XDG_CACHE_HOME= "

-- The operations a spec speaks of, in a word of its descriptions; also by name.
local function operations(folder, spec, pattern)
  local list = {}
  for _, line in ipairs(M.lines(("cd %s && %s--list %s 2>/dev/null"):format(folder, BUSTED,
    spec))) do
    local name = line:match(pattern)
    if name and not list[name] then
      list[name] = true
      list[#list + 1] = name
    end
  end
  return list
end

--- The units of a tree that is built, with those of the simulated GPU where it was built.
---@param folder string
---@return table[] units
function M.units(folder)
  local list, later = {}, {}
  local function add(name, command, where)
    table.insert(where == "gpu" and later or list, { name = name, command = command,
      folder = where })
  end
  for _, path in ipairs(M.lines("cd " .. folder .. " && ls tests/c/test_*.c")) do
    local name = path:match "([%w_]+)%.c$"
    add("c/" .. name, "build/tests/" .. name, "core")
  end
  local simulated = M.read(folder .. "/build/libridge_gpusim.so") ~= nil
  local graded = operations(folder, "tests/op/grad_spec.lua", "the gradient of ([%w_]+) is what")
  for _, name in ipairs(operations(folder, "tests/op/op_spec.lua",
    "op_spec%.lua:%d+: ([%w_]+) agrees with")) do
    -- the command of busted takes no blanks in a pattern
    local forward = BUSTED .. "--filter='^" .. name .. "%s' tests/op/op_spec.lua"
    local back = BUSTED .. "--filter='gradient%sof%s" .. name .. "%s' tests/op/grad_spec.lua"
    add("op/" .. name, graded[name] and forward .. " && " .. back or forward, "core/op")
    if simulated then add("gpu/" .. name, SIMULATED .. forward, "gpu") end
  end
  for _, path in ipairs(M.lines("cd " .. folder .. " && find tests -name '*_spec.lua' | sort")) do
    local kind = path:match "^tests/(%w+)/"
    local by_name = path == "tests/op/op_spec.lua"
    if not by_name and kind ~= "check" and kind ~= "sim" then
      local where = path:match "^tests/lua/(.*)/" or ""
      add(path, BUSTED .. path, kind == "op" and "core/op" or "lua/ridge/" .. where)
      if simulated and kind == "op" and path ~= "tests/op/grad_spec.lua" then
        add("gpu/" .. path, SIMULATED .. BUSTED .. path, "gpu")
      end
    end
  end
  if simulated then
    for _, name in ipairs { "sim", "blas", "dnn", "chain" } do
      add("c/test_" .. name, "build/tests/test_" .. name, "gpu")
    end
    for _, path in ipairs { "tests/sim/dnn_spec.lua", "tests/sim/dnn_plan_spec.lua" } do
      add(path, SIMULATED .. "RIDGE_CUDNN=simulated " .. BUSTED .. path, "gpu")
    end
  end
  for _, unit in ipairs(later) do list[#list + 1] = unit end
  return list
end

-- -- The map -------------------------------------------------------------------------------------

local function place_of(map, unit) return map .. "/" .. unit.name:gsub("/", "@") .. ".txt" end

--- Let the Lua sources of a copy note which of their blocks are entered, in the file RIDGE_COVER.
---@param folder string the copy
---@param counting function text and opening give the text that notes (mutate_plant)
function M.hook(folder, counting)
  local hook = M.lines "pwd"[1] .. "/scripts/mutate_hook.lua"
  for _, path in ipairs(M.lines("cd " .. folder .. " && find lua/ridge -name '*.lua'")) do
    local text = M.read(folder .. "/" .. path)
    M.write(folder .. "/" .. path, counting(text, ("dofile(%q)(%q)"):format(hook, path)))
  end
end

-- What gcov says was run: "count: line:text" below a line with the source.
local function counted(folder, reached)
  local source
  for line in io.popen("cd " .. folder .. " && find build/obj -name '*.gcda' -exec gcov --stdout "
    .. "{} + 2>/dev/null"):lines() do
    local path = line:match "^%s*%-:%s*0:Source:(.+)$"
    if path then
      source = path:find "^core/.*%.c$" or path:find "^lua/.*%.c$" or path:find "^gpu/.*%.cu?$"
      source = source and path
    elseif source then
      local number = line:match "^%s*%d+%*?:%s*(%d+):"
      if number then reached[source .. ":" .. number] = true end
    end
  end
end

--- Run every unit that has not yet been run in the copy that counts, and keep what it reached.
---@param folder string the copy, built with --coverage, its Lua sources hooked
---@param map string the folder of the map
---@param units table[] of units
---@param limit number seconds for one unit
---@param say function is told of each
function M.count(folder, map, units, limit, say)
  local here = M.lines "pwd"[1]
  for i, unit in ipairs(units) do
    if not M.read(place_of(map, unit)) then
      local hits = here .. "/" .. map .. "/hits"
      os.remove(hits)
      M.run("find " .. folder .. "/build -name '*.gcda' -delete")
      local start = M.now()
      local code = M.run(("cd %s && RIDGE_COVER=%s RIDGE_LUA=$PWD/lua timeout -k 5 %d bash -c %s "
        .. ">/dev/null 2>&1 </dev/null"):format(folder, hits, limit, M.quoted(unit.command)))
      local took, reached = M.now() - start, {}
      counted(folder, reached)
      for line in (M.read(hits) or ""):gmatch "[^\n]+" do reached[line] = true end
      local list = {}
      for line in pairs(reached) do list[#list + 1] = line end
      table.sort(list)
      M.write(place_of(map, unit), ("%d %.2f\n%s\n"):format(code, took, table.concat(list, "\n")))
      say(("map: %d of %d, %s: %d lines, %.1f s%s"):format(i, #units, unit.name, #list, took,
        code == 0 and "" or ", FAILS"))
    end
  end
end

--- What was counted: which units reach each line, the cheapest first.  Units that failed without a
--- mutant, or were not counted, are left out.
---@param map string
---@param units table[]
---@return table reached path to line or block to list of units
---@return string[] failed names of units that failed
function M.load(map, units)
  local reached, failed, known = {}, {}, {}
  for _, unit in ipairs(units) do
    local text = M.read(place_of(map, unit))
    local code, took = (text or ""):match "^(%d+) ([%d.]+)\n"
    if code == "0" then
      unit.seconds = tonumber(took)
      known[#known + 1] = { unit, text }
    elseif code then
      failed[#failed + 1] = unit.name
    end
  end
  table.sort(known, function(a, b) return a[1].seconds < b[1].seconds end)
  for _, each in ipairs(known) do
    for path, line in each[2]:gmatch "([^:\n]+):(%d+)\n" do
      local lines = reached[path] or {}
      reached[path] = lines
      lines[tonumber(line)] = lines[tonumber(line)] or {}
      table.insert(lines[tonumber(line)], each[1])
    end
  end
  return reached, failed
end

return M
