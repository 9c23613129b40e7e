#include "common/simt/copies/tensor_map_shape.h"

#include <stdexcept>
#include <string>

namespace simt {
namespace {

constexpr std::int64_t kMostExtent = std::int64_t{1} << 32, kStrideLimit = std::int64_t{1} << 40;
constexpr int kMostBox = 256, kMostStep = 8, kMultiple = 16;

/// "tensor map of K: <rule>, given <what>; <what to do>"
[[noreturn]] void refuse(const char* name, const std::string& rule, const std::string& given,
                         const std::string& advice) {
    throw std::invalid_argument(std::string("tensor map of ") + name + ": " + rule + "; given: " + given + ". " +
                                advice);
}

std::string of_dimension(const char* what, int dimension) {
    return std::string(what) + " of dimension " + std::to_string(dimension);
}

std::string bytes(std::int64_t count) { return std::to_string(count) + " bytes"; }

void check_strides(TensorMapShape& map, const char* name) {
    for (int d = 0; d + 1 < map.rank; ++d) {
        std::int64_t& stride = map.byte_strides[std::size_t(d)];
        // Nobody ever takes a step along a dimension of one element, and libtorch puts any number there.
        if (map.extents[std::size_t(d)] == 1) stride = kMultiple;
        const std::string given = of_dimension("the stride", d) + " is " + bytes(stride);
        if (stride % kMultiple != 0)
            refuse(name, "all strides but the last are multiples of 16 bytes", given,
                   "Pad the rows, or copy the tensor to one that is contiguous");
        if (stride < 0 || stride >= kStrideLimit)
            refuse(name, "strides are at least 0 and below 2^40 bytes", given,
                   "Copy the tensor to one that is contiguous");
    }
}

void check_box(const TensorMapShape& map, const char* name) {
    for (int d = 0; d < map.rank; ++d) {
        const int box = map.box[std::size_t(d)], step = map.steps[std::size_t(d)];
        if (box < 1 || box > kMostBox)
            refuse(name, "a box has 1 to 256 elements along each dimension",
                   of_dimension("the box", d) + " has " + std::to_string(box),
                   "Copy larger tiles with several boxes, as tma_load does with panels");
        if (step < 1 || step > kMostStep)
            refuse(name, "steps are 1 to 8 elements", of_dimension("the step", d) + " is " + std::to_string(step),
                   "Leave elements out by the tensor's stride instead");
    }
    const int last = map.rank - 1;
    if (map.steps[std::size_t(last)] != 1)
        refuse(name, "the step of the last dimension is 1: its elements are copied without gaps",
               of_dimension("the step", last) + " is " + std::to_string(map.steps[std::size_t(last)]),
               "Use steps on the other dimensions alone");
    const int row = map.box[std::size_t(last)] * map.element_bytes;
    const std::string given = "a row of the box, " + std::to_string(map.box[std::size_t(last)]) + " elements of " +
                              std::to_string(map.element_bytes) + (map.element_bytes == 1 ? " byte" : " bytes") +
                              ", has " + bytes(row);
    if (row % kMultiple != 0) refuse(name, "the rows of a box are multiples of 16 bytes", given, "Choose a wider box");
    const int span = int(swizzle_span(map.swizzle));
    if (map.swizzle != Swizzle::none && row > span)
        refuse(name, std::string("with a ") + name_of(map.swizzle) + " the rows of a box have at most " + bytes(span),
               given, "Cut the columns into panels, with a copy for each: tile_map() and PanelTile do");
}

}  // namespace

TensorMapShape map_shape_of(const TensorArgument& argument, int rank, int element_bytes) {
    if (argument.rank != rank)
        refuse(argument.name, "the map has as many dimensions as the tensor",
               "a map of " + std::to_string(rank) + " for a tensor of " + std::to_string(argument.rank),
               "Name the shape in which the map is to see the tensor, a TensorShape, if it is another one");
    return map_shape_of(argument, rank, argument.extents.data(), argument.strides.data(), element_bytes);
}

TensorMapShape map_shape_of(const TensorArgument& argument, int rank, const std::int64_t* extents,
                            const std::int64_t* strides, int element_bytes) {
    TensorMapShape map{.data = argument.data, .rank = rank, .element_bytes = element_bytes};
    for (int d = 0; d < rank; ++d) {
        map.extents[std::size_t(d)] = extents[d];
        map.byte_strides[std::size_t(d)] = strides[d] * element_bytes;
    }
    return map;
}

void set_box(TensorMapShape& map, const char* name, const int* box, const int* steps, Swizzle swizzle) {
    map.swizzle = swizzle;
    for (int d = 0; d < map.rank; ++d) {
        map.box[std::size_t(d)] = box[d];
        map.steps[std::size_t(d)] = steps[d];
    }
    const auto address = reinterpret_cast<std::uintptr_t>(map.data);
    if (address == 0 || address % kMultiple != 0)
        refuse(name, "the tensor begins at a multiple of 16 bytes",
               address == 0 ? "no address" : "an address " + bytes(std::int64_t(address % kMultiple)) + " beyond one",
               "Slices may begin anywhere: give the map the whole tensor, and the slice's place as coordinates");
    for (int d = 0; d < map.rank; ++d)
        if (const std::int64_t extent = map.extents[std::size_t(d)]; extent < 1 || extent > kMostExtent)
            refuse(name, "a dimension has 1 to 2^32 elements",
                   of_dimension("the extent", d) + " is " + std::to_string(extent),
                   "There is nothing to launch for an empty tensor");
    const auto last = std::size_t(map.rank - 1);
    if (map.extents[last] > 1 && map.byte_strides[last] != map.element_bytes)
        refuse(name, "the elements of the last dimension lie side by side",
               "their stride is " + std::to_string(map.byte_strides[last] / map.element_bytes) + " elements",
               "Copy the tensor to one whose last dimension is contiguous");
    map.byte_strides[last] = map.element_bytes;
    check_strides(map, name);
    check_box(map, name);
}

}  // namespace simt
