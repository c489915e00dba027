-- SPDX-License-Identifier: MIT
-- mutate_judge: one mutant in a copy of the tree: planted, built, and tried by tests until one
-- notices.

local plant = dofile "scripts/mutate_plant.lua"
local map = dofile "scripts/mutate_map.lua"

local M = {}

-- -- Copies of the tree --------------------------------------------------------------------------

local function has(program) return map.run("command -v " .. program .. " >/dev/null 2>&1") == 0 end

-- make in a copy; what it is built with is the same each time.
local function make(folder, flags, targets)
  local fast = has "ccache" and " CC='ccache cc' CXX='ccache g++'" or ""
  return map.run(("make -s -C %s%s %s %s >>%s.log 2>&1 </dev/null"):format(folder, fast, flags,
    targets, folder)) == 0
end

--- Is nvcc here, and so the simulated GPU?  Not where M.without_gpu was set.
function M.has_nvcc()
  return not M.without_gpu and (has "nvcc" or map.read "/usr/local/cuda/bin/nvcc" ~= nil)
end

local function everything()
  return "all test-programs" .. (M.has_nvcc() and " build/libridge_gpusim.so build/tests/test_sim "
    .. "build/tests/test_blas build/tests/test_dnn build/tests/test_chain" or "")
end

-- What the compiler would tell of is no mistake that tests are for.
local TOLD = "WERROR='-Werror=incompatible-pointer-types -Werror=int-conversion'"
local FLAGS = { plain = "", counting = "OPT=-O1 EXTRA=--coverage" }

--- Make a folder a copy of the tree, and build it: "plain", or "counting" what runs.
---@param folder string
---@param way string
function M.copy(folder, way)
  assert(map.run("scripts/copy_tree " .. folder) == 0, "the tree could not be copied")
  local planted = map.read(folder .. ".planted") -- broken off: its object is newer than the source
  if planted then map.run(("touch %s/%s"):format(folder, planted)) end
  if way == "counting" then
    map.run(("rm -rf %s.source && mkdir %s.source && cp -r %s/core %s/lua %s/gpu %s.source")
      :gsub("%%s", folder))
    map.hook(folder, plant.counting)
  end
  if M.without_gpu then map.run(("rm -f %s/build/libridge_gpusim.so"):format(folder)) end
  if not make(folder, FLAGS[way], everything()) then
    io.stderr:write("mutate: the copy does not build, see " .. folder .. ".log\n")
    os.exit(1)
  end
  os.remove(folder .. ".planted")
end

-- -- One mutant ----------------------------------------------------------------------------------

-- The objects a source is compiled to.
local function objects_of(path)
  if path:find "%.cu$" then return { "build/obj/sim/" .. path:match "^gpu/(.*)%.cu$" .. ".o" } end
  local simd = path:match "^core/cpu/simd/(.*)%.c$"
  if not simd then return { "build/obj/" .. path:gsub("%.c$", ".o") } end
  local list = {}
  for _, set in ipairs { "base", "avx2", "avx512" } do
    list[#list + 1] = ("build/obj/simd/%s_%s.o"):format(simd, set)
  end
  return list
end

-- nil, or why the planted source is none: it does not compile, or is the same program.
local function build_planted(tree, mutant, source)
  if mutant.language == "lua" then
    local a, b = loadstring(source, "=x"), loadstring(plant.planted(source, mutant), "=x")
    if not b then return "not built" end
    return string.dump(a, true) == string.dump(b, true) and "equal" or nil
  end
  local objects = table.concat(objects_of(mutant.path), " ")
  if map.run(("cd %s && for o in %s; do [ ! -e $o ] || cp -p $o $o.kept; done"):format(tree,
      objects)) ~= 0 then
    return "not built"
  end
  local there = table.concat(map.lines(("cd %s && ls %s 2>/dev/null"):format(tree, objects)), " ")
  if there == "" or map.run(("CCACHE_DISABLE=1 make -s -C %s %s %s >/dev/null 2>&1"):format(tree,
      FLAGS.plain .. " " .. TOLD, there)) ~= 0 then
    return "not built"
  end
  -- columns of the source are in what debuggers read
  return map.run(("cd %s && for o in %s; do strip -g -o $o.now $o && strip -g -o $o.was $o.kept &&"
    .. " cmp -s $o.now $o.was || exit 1; done"):format(tree, there)) == 0 and "equal" or nil
end

local function restore(tree, mutant, source)
  map.write(tree .. "/" .. mutant.path, source)
  if mutant.language ~= "lua" then
    map.run(("cd %s && for o in %s; do [ ! -e $o.kept ] || { mv $o.kept $o; touch $o; }; done")
      :format(tree, table.concat(objects_of(mutant.path), " ")))
  end
  os.remove(tree .. ".planted")
end

-- Run a unit in a copy; true where it passed, and whether it hung.
local function passes(tree, unit, language)
  if language ~= "lua" then
    local target = unit.command:match "^build/tests/%S+$"
    if not target then
      target = "all" .. (M.has_nvcc() and (unit.folder == "gpu" or language == "cuda")
        and " build/libridge_gpusim.so" or "")
    end
    if not make(tree, FLAGS.plain, target) then return false, false end
  end
  local code = map.run(("cd %s && TMPDIR=$PWD/build/tmp RIDGE_LUA=$PWD/lua timeout -k 5 %d "
    .. "bash -c %s >build/unit.log 2>&1 </dev/null"):format(tree, 30 + 5 * unit.seconds,
    map.quoted(unit.command)))
  map.run("rm -rf " .. tree .. "/build/tmp/*")
  return code == 0, code == 124 or code == 137
end

local sound = {} -- by unit: does it pass without a mutant?

--- What becomes of a mutant.  A unit that fails without the mutant too does not count.
---@param tree string a copy that is built; it is afterwards as it was
---@param mutant table with its path and language
---@param units table[] those that reach it, in their order
---@param budget number seconds
---@return string verdict "caught", "hung", "survived", "not reached", "equal" or "not built"
---@return string unit which noticed, or what was left out
---@return number tried how many were run
function M.judge(tree, mutant, units, budget)
  local source = map.read(tree .. "/" .. mutant.path)
  if #units == 0 then return "not reached", "", 0 end
  local function planted(unit)
    map.write(tree .. ".planted", mutant.path)
    map.write(tree .. "/" .. mutant.path, plant.planted(source, mutant))
    local why = build_planted(tree, mutant, source)
    if why then return why end
    return unit and passes(tree, unit, mutant.language)
  end
  local start, n = map.now(), 0
  local why = planted()
  if why then
    restore(tree, mutant, source)
    return why, "", 0
  end
  for i, unit in ipairs(units) do
    if map.now() - start > budget then
      restore(tree, mutant, source)
      return "survived", ("%d of %d tests run"):format(n, #units), n
    end
    if sound[unit] ~= false then
      n = i
      local good, hung = passes(tree, unit, mutant.language)
      if not good then
        restore(tree, mutant, source)
        if sound[unit] == nil then sound[unit] = passes(tree, unit, mutant.language) end
        if sound[unit] then return hung and "hung" or "caught", unit.name, n end
        planted()
      end
    end
  end
  restore(tree, mutant, source)
  return "survived", "", n
end

return M
