// classroom_recorder FOLDER SEED SUITE…    records the problems of each suite with their answers, and prints the name
// of each file; ./ladder student-copy calls it

#include <iostream>
#include <span>

#include "common/classroom/judge/record.h"

int main(int argc, char** argv) {
    if (argc < 4) {
        std::cerr << "classroom_recorder FOLDER SEED SUITE…; ./ladder student-copy calls it\n";
        return 2;
    }
    try {
        for (const char* suite : std::span(argv, std::size_t(argc)).subspan(3))
            std::cout << ladder::classroom::record(nlohmann::json::parse(suite), std::stoull(argv[2]), argv[1]) << '\n';
    } catch (const std::exception& error) {
        std::cerr << "classroom_recorder: " << error.what() << '\n';
        return 2;
    }
}
