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
    .. "build/tests/test_blas build/tests/test_kept build/tests/test_dnn "
    .. "build/tests/test_fused" or "")
end

-- What the compiler would tell of is no mistake that tests are for.
local TOLD = "WERROR='-Werror=incompatible-pointer-types -Werror=int-conversion'"
local FLAGS = { plain = "LTO=", -- a mutant is an object, and linked soon
  counting = "OPT='-O0 -g' EXTRA='-O0 -fsanitize-coverage=trace-pc' " -- of CUDA too
    .. "HOOK=gpu/cover_hook.cu" }

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
    for _, place in ipairs { "core/base/cover_hook.c", "gpu/cover_hook.cu" } do
      map.run(("cp scripts/mutate_cover.c %s/%s"):format(folder, place))
    end
  end
  if M.without_gpu then map.run(("rm -f %s/build/libridge_gpusim.so"):format(folder)) end
  if not make(folder, FLAGS[way], everything()) then
    io.stderr:write("mutate: the copy does not build, see " .. folder .. ".log\n")
    os.exit(1)
  end
  os.remove(folder .. ".planted")
end

--- Bring the tests of the copy that counts up to date, and forget what those that have changed
--- reached.
---@param folder string
---@param where string the folder of the map
---@return boolean whether any has changed
function M.tests_into(folder, where)
  local any = false
  for _, path in ipairs(map.lines "git ls-files -co --exclude-standard tests") do
    local text = map.read(path)
    if text and map.read(folder .. "/" .. path) ~= text then
      any = true
      map.run(("mkdir -p %s/%s && cp %s %s/%s"):format(folder, path:match "^(.*)/", path, folder,
        path))
      map.forget(where, path)
    end
  end
  return any and (make(folder, FLAGS.counting, everything()) or true)
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

local made = {} -- targets that were made since a mutant was planted or taken away

-- Run a unit in a copy; true where it passed, whether it hung, and its seconds, those of a machine
-- that nobody else uses as far as can be told: others' work is neither a hang nor a budget spent.
local function passes(tree, unit, language)
  if language ~= "lua" then
    local target = unit.command:match "^build/tests/%S+$"
    if not target then
      target = "all" .. (M.has_nvcc() and (unit.folder == "gpu" or language == "cuda")
        and " build/libridge_gpusim.so" or "")
    end
    if made[target] == nil then made[target] = make(tree, FLAGS.plain, target) end
    if not made[target] then return false, false, 0 end
  end
  local start, before = map.now(), map.slowness()
  local code = map.run(("cd %s && TMPDIR=$PWD/build/tmp RIDGE_LUA=$PWD/lua timeout -k 5 %d "
    .. "bash -c %s >build/unit.log 2>&1 </dev/null"):format(tree,
    math.ceil((30 + 5 * unit.seconds) * before), map.quoted(unit.command)))
  local took = (map.now() - start) / math.max(before, map.slowness())
  map.run("rm -rf " .. tree .. "/build/tmp/*")
  return code == 0, code == 124 or code == 137, took
end

-- Units of one spec that come one after the other run together, more of them each time: what is
-- noticed is mostly noticed by the first.
local function together(units)
  local groups, size, i = {}, 1, 1
  while i <= #units do
    local list = { units[i] }
    while units[i].parts and #list < size and units[i + 1] and units[i + 1].parts == units[i].parts
    do
      i = i + 1
      list[#list + 1] = units[i]
    end
    if units[i].parts then size = size * 4 end
    groups[#groups + 1] = map.joined(list)
    i = i + 1
  end
  return groups
end

local sound = {} -- by unit, or by the name of several: does it pass without a mutant?
local QUICK = 20 -- seconds; what fails sooner is asked twice, so that a busy machine is no verdict

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
  local function planted()
    made = {}
    map.write(tree .. ".planted", mutant.path)
    map.write(tree .. "/" .. mutant.path, plant.planted(source, mutant))
    return build_planted(tree, mutant, source)
  end
  local function gone(...)
    made = {}
    restore(tree, mutant, source)
    return ...
  end
  local why = planted()
  if why then return gone(why, "", 0) end
  if #units == 0 then return gone("not reached", "", 0) end
  local spent, n, all = 0, 0, 0
  local groups = together(units)
  for _, unit in ipairs(groups) do all = all + (unit.several and #unit.several or 1) end
  for _, unit in ipairs(groups) do
    local key = unit.several and unit.name or unit
    if spent > budget then
      return gone("survived", ("%d of %d tests run"):format(n, all), n)
    end
    if sound[key] ~= false then
      n = n + (unit.several and #unit.several or 1)
      local good, hung, took = passes(tree, unit, mutant.language)
      spent = spent + took
      if not good and took < QUICK then good, hung = passes(tree, unit, mutant.language) end
      if not good then
        gone()
        if sound[key] == nil then
          -- asked twice, like what notices: one bad minute would leave it out for the whole run
          sound[key] = passes(tree, unit, mutant.language)
            or passes(tree, unit, mutant.language)
        end
        if sound[key] then return hung and "hung" or "caught", unit.name, n end
        planted()
      end
    end
  end
  return gone("survived", "", n)
end

return M
