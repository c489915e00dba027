-- SPDX-License-Identifier: MIT
-- mutate_map: the tests as units that can be run alone, and which lines each of them reaches.
--
-- A unit is { name, command, folder }: a test program, a file of specs, or what the op suite says
-- of one operation, on the CPU or on the simulated GPU.  In a copy of the tree each basic block of
-- C and CUDA notes that it was entered (mutate_cover.c, mutate_lines.lua), and so does each block
-- of Lua (mutate_hook.lua).  This is done once; what a unit reached is kept in a file of its own,
-- which begins with its exit code and seconds.

local ffi = require "ffi"

ffi.cdef [[
typedef struct { long s, us; } rg_mutate_time;
int gettimeofday(rg_mutate_time *, void *);
]]

local M = {}

local lines_of = dofile "scripts/mutate_lines.lua"

--- Seconds of the wall clock.
function M.now()
  local t = ffi.new "rg_mutate_time"
  ffi.C.gettimeofday(t, nil)
  return tonumber(t.s) + tonumber(t.us) * 1e-6
end

local processors

--- By how much work takes longer than alone: processes that want to run for each processor.
function M.slowness()
  if not processors then
    local pipe = assert(io.popen "nproc")
    processors = pipe:read "*n"
    pipe:close()
  end
  return math.max(1, tonumber((M.read "/proc/loadavg" or "0"):match "%S+") / processors)
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

-- What is said of each operation by one spec: units that one process can run several of.
local function add_parts(list, folder, prefix, env, spec, pattern, filter)
  for _, name in ipairs(operations(folder, spec, pattern)) do
    local only = "'--filter=" .. filter:format(name) .. "'"
    list[#list + 1] = { name = prefix .. name, command = env .. BUSTED .. only .. " " .. spec,
      folder = env == "" and "core/op" or "gpu", part = name, parts = prefix, env = env,
      spec = spec, only = only }
  end
end

--- One unit that runs several parts of the same spec in one process.
---@param list table[] of units, all of one spec
---@return table unit
function M.joined(list)
  if #list == 1 then return list[1] end
  local first, only, seconds = list[1], {}, 0
  for i, unit in ipairs(list) do
    only[i] = unit.only
    seconds = seconds + unit.seconds
  end
  return { name = ("%d of %s*, from %s"):format(#list, first.parts, first.name),
    command = first.env .. BUSTED .. table.concat(only, " ") .. " " .. first.spec,
    folder = first.folder, seconds = seconds, parts = first.parts, several = list }
end

-- The specs that are no part of the map: what they run is what other tests run already, in builds
-- of their own.
local LEFT_OUT = { ["tests/lua/bundle_spec.lua"] = true, ["tests/lua/gpu_check_spec.lua"] = true,
  ["tests/run_tests_spec.lua"] = true }

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
  for _, env in ipairs { "", simulated and SIMULATED or nil } do
    local into, prefix = env == "" and list or later, env == "" and "" or "gpu/"
    add_parts(into, folder, prefix .. "op/", env, "tests/op/op_spec.lua",
      "op_spec%.lua:%d+: ([%w_]+) agrees with", "^%s%%s")
    add_parts(into, folder, prefix .. "grad/", env, "tests/op/grad_spec.lua",
      "the gradient of ([%w_]+) is what", "gradient%%sof%%s%s%%s")
  end
  for _, path in ipairs(M.lines("cd " .. folder .. " && find tests -name '*_spec.lua' | sort")) do
    local kind = path:match "^tests/(%w+)/"
    local by_name = path == "tests/op/op_spec.lua" or path == "tests/op/grad_spec.lua"
    if not by_name and not LEFT_OUT[path] and kind ~= "check" and kind ~= "sim" then
      local where = path:match "^tests/lua/(.*)/" or ""
      add(path, BUSTED .. path, kind == "op" and "core/op" or "lua/ridge/" .. where)
      if simulated and kind == "op" then
        add("gpu/" .. path, SIMULATED .. BUSTED .. path, "gpu")
      end
    end
  end
  if simulated then
    for _, name in ipairs { "sim", "blas", "kept", "dnn", "fused" } do
      add("c/test_" .. name, "build/tests/test_" .. name, "gpu")
    end
    for _, name in ipairs { "dnn", "dnn_plan", "dnn_due" } do
      local path = "tests/sim/" .. name .. "_spec.lua"
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

--- Forget what a unit reached, by the file of its tests, so that it is counted again.
---@param map string
---@param path string of a spec or a C test
function M.forget(map, path)
  local name = path:match "^tests/c/(.*)%.c$"
  os.remove(place_of(map, { name = name and "c/" .. name or path }))
end

local images = {} -- by name: the lines of its blocks

-- The blocks of an image that noted something.
local function blocks_of(folder, name)
  for _, where in ipairs { "/build/", "/build/tests/" } do
    local path = folder .. where .. name
    if not images[name] and M.run("test -e " .. path) == 0 then
      images[name] = lines_of.blocks(path)
    end
  end
  images[name] = images[name] or {}
  return images[name]
end

-- What was noted, as lines: an image and an address behind a blank, or a block of Lua as it is.
local function resolved(folder, notes)
  local reached = {}
  for note in pairs(notes) do
    local image, address = note:match "^(%S+) (%d+)$"
    if image then
      for _, line in ipairs(blocks_of(folder, image)[tonumber(address)] or {}) do
        reached[line] = true
      end
    else
      reached[note] = true
    end
  end
  local list = {}
  for line in pairs(reached) do list[#list + 1] = line end
  table.sort(list)
  return list
end

-- Everything that was noted beside the file `hits`, which is emptied.
local function noted(hits)
  local set = {}
  for line in (M.read(hits) or ""):gmatch "[^\n]+" do set[line] = true end
  for _, path in ipairs(M.lines("ls " .. hits .. ".* 2>/dev/null")) do
    local image, bytes = path:sub(#hits + 2), M.read(path)
    local at = bytes:find("\1", 1, true)
    while at do
      set[image .. " " .. at - 1] = true
      at = bytes:find("\1", at + 1, true)
    end
  end
  M.run("rm -f " .. hits .. " " .. hits .. ".*")
  return set
end

local function keep(folder, map, unit, code, took, notes, say)
  local list = resolved(folder, notes)
  M.write(place_of(map, unit), ("%d %.2f\n%s\n"):format(code, took, table.concat(list, "\n")))
  say(("map: %s: %d lines, %.1f s%s"):format(unit.name, #list, took, code == 0 and ""
    or ", FAILS"))
end

--- The lines that have code, whether or not anything reaches them.
---@param folder string the copy that counts
---@param map string the folder of the map
function M.keep_code(folder, map)
  local notes = {}
  for _, name in ipairs { "ridge", "libridge.so", "libridge_gpusim.so" } do
    for address in pairs(blocks_of(folder, name)) do notes[name .. " " .. address] = true end
  end
  M.write(map .. "/code", table.concat(resolved(folder, notes), "\n") .. "\n")
end

local SAMPLES = 5 -- on the simulated GPU every n-th is enough to see what is reached

--- Run every unit that has not yet been run in the copy that counts, and keep what it reached.
---@param folder string the copy, built to note what runs, its Lua sources hooked
---@param map string the folder of the map
---@param units table[] of units
---@param limit number seconds for one unit
---@param say function is told of each
function M.count(folder, map, units, limit, say)
  local here = M.lines "pwd"[1]
  local hits, parts = here .. "/" .. map .. "/hits", here .. "/" .. map .. "/parts"
  local function run(command, more)
    M.run("rm -rf " .. hits .. " " .. hits .. ".* " .. parts .. " && mkdir " .. parts)
    local start = M.now()
    local code = M.run(("cd %s && RIDGE_COVER=%s RIDGE_PARTS=%s RIDGE_LUA=$PWD/lua %s timeout -k 5 "
      .. "%d bash -c %s >%s.log 2>&1 </dev/null"):format(folder, hits, parts, more, limit,
      M.quoted((command:gsub("%-%-no%-keep%-going ", ""))), hits:gsub("hits$", "unit")))
    return code, M.now() - start
  end
  local done = {}
  for _, unit in ipairs(units) do
    if unit.part and not done[unit.parts] and not M.read(place_of(map, unit)) then
      done[unit.parts] = true
      local code = run(unit.env .. "busted --lua=luajit -o TAP --helper=" .. here
        .. "/scripts/mutate_parts.lua " .. unit.spec, "RIDGE_TEST_EVERY="
        .. (unit.env == "" and 1 or SAMPLES))
      for _, part in ipairs(units) do
        if part.parts == unit.parts then
          local notes = {}
          local text = M.read(parts .. "/" .. part.part)
          for line in (text or ""):gmatch "\n([^\n]+)" do notes[line] = true end
          local failed, took = (text or ""):match "^(%d) ([%d.]+)"
          keep(folder, map, part, tonumber(failed or code), 1 + (tonumber(took) or 0), notes, say)
        end
      end
    elseif not unit.part and not M.read(place_of(map, unit)) then
      local code, took = run(unit.command, "")
      keep(folder, map, unit, code, took, noted(hits), say)
    end
  end
end

--- What was counted: which units reach each line, the cheapest first.  Units that were not counted
--- are left out.
---@param map string
---@param units table[]
---@return table reached path to line or block to list of units; false for lines of code that no
---unit reaches
---@return string[] failed names of units that failed where lines were counted
function M.load(map, units)
  local reached, failed, known = {}, {}, {}
  local function at(path, line)
    local lines = reached[path] or {}
    reached[path] = lines
    lines[line] = lines[line] or {}
    return lines[line]
  end
  for _, unit in ipairs(units) do
    local text = M.read(place_of(map, unit))
    local code, took = (text or ""):match "^(%d+) ([%d.]+)\n"
    if code then
      unit.seconds, unit.lines = tonumber(took), {}
      known[#known + 1] = { unit, text }
    end
    if code and code ~= "0" then failed[#failed + 1] = unit.name end
  end
  table.sort(known, function(a, b) return a[1].seconds < b[1].seconds end)
  for _, each in ipairs(known) do
    local unit = each[1]
    for path, line in each[2]:gmatch "([^:\n]+):(%d+)\n" do
      table.insert(at(path, tonumber(line)), unit)
      unit.lines[path] = (unit.lines[path] or 0) + 1
    end
  end
  for path, line in (M.read(map .. "/code") or ""):gmatch "([^:\n]+):(%d+)\n" do
    at(path, tonumber(line))
  end
  return reached, failed
end

return M
